package llmmock

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Certificates are valid for so long that no clock matters.
var validFrom, validTo = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2049, 12, 31, 0, 0, 0, 0, time.UTC)

// MakeTLS makes a CA and, signed by it, a certificate for localhost and the given
// hosts. It returns a server's configuration and the CA's certificate as PEM. No
// private key leaves the process.
func MakeTLS(hosts ...string) (*tls.Config, []byte, error) {
	var keys [2]*ecdsa.PrivateKey // of the CA and of the leaf
	for i := range keys {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, nil, fmt.Errorf("llmmock: tls: %w", err)
		}
		keys[i] = k
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "firstsound mock CA"}, NotBefore: validFrom, NotAfter: validTo,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "firstsound mock"}, NotBefore: validFrom, NotAfter: validTo,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range append([]string{"localhost", "127.0.0.1", "::1", "192.0.2.1"}, hosts...) {
		if ip := net.ParseIP(h); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else if h != "" {
			leaf.DNSNames = append(leaf.DNSNames, h)
		}
	}
	var der [2][]byte
	for i, c := range []*x509.Certificate{ca, leaf} {
		d, err := x509.CreateCertificate(rand.Reader, c, ca, &keys[i].PublicKey, keys[0])
		if err != nil {
			return nil, nil, fmt.Errorf("llmmock: tls: %w", err)
		}
		der[i] = d
	}
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der[1], der[0]}, PrivateKey: keys[1]}}, MinVersion: tls.VersionTLS12}
	return config, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der[0]}), nil
}
