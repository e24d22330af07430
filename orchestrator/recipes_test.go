package orchestrator_test

import (
	"regexp"
	"strconv"
	"testing"
)

// recipe matches a program of a document, and what it prints.
var recipe = regexp.MustCompile("(?s)\n```go\n(package main\n.*?)```\n\nIt prints\n\n```text\n(.*?)```\n")

// The programs of docs/recipes.md compile, and print what the page says.
func TestRecipes(t *testing.T) {
	m := newUserModule(t)
	found := recipe.FindAllStringSubmatch(readText(t, "../docs/recipes.md"), -1)
	if len(found) < 3 {
		t.Fatalf("%d programs", len(found))
	}
	for i, r := range found {
		name := "recipe" + strconv.Itoa(i)
		m.write(t, name, r[1])
		if got := m.run(t, "run", "./"+name); got != r[2] {
			t.Errorf("%d. program: it prints\n%s\nand the page says\n%s", i+1, got, r[2])
		}
	}
}
