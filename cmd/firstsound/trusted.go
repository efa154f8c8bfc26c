package main

import (
	"crypto/x509"
	"fmt"
	"os"
)

// trusted returns the system's certificates and those in a file.
func trusted(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // the system has none
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("there is no certificate (PEM) in %s", file)
	}
	return roots, nil
}
