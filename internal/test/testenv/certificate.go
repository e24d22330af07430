package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificate makes an authority, and a certificate of it for one address of a server, and returns the names of their
// files and of the key's. A server of this package can read them.
func Certificate(tb testing.TB, ip string) (authority, certificate, key string) {
	tb.Helper()
	dir, err := tempDir("certificate-")
	must(tb, err)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.ParseIP(ip)},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(tb, err)
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(tb, err)
	rootBytes, err := x509.CreateCertificate(rand.Reader, root, root, &rootKey.PublicKey, rootKey)
	must(tb, err)
	leafBytes, err := x509.CreateCertificate(rand.Reader, leaf, root, &leafKey.PublicKey, rootKey)
	must(tb, err)
	keyBytes, err := x509.MarshalECPrivateKey(leafKey)
	must(tb, err)
	write := func(name, kind string, bytes []byte) string {
		path := filepath.Join(dir, name)
		must(tb, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600))
		must(tb, chown(path))
		return path
	}
	return write("ca.pem", "CERTIFICATE", rootBytes), write("server.pem", "CERTIFICATE", leafBytes),
		write("server.key", "EC PRIVATE KEY", keyBytes)
}
