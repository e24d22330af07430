package faulttest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
