package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// security is what a file of --security=FILE says, in JSON; without a file connections are in the clear.
type security struct {
	Authority   string // files in PEM
	Certificate string
	Key         string
	Mechanism   string
	User        string
	Password    string
	IsToken     bool // user and password are a delegation token's
	Token       string
}

func (s security) options() []kgo.Opt {
	var chosen []kgo.Opt
	if s.Authority != "" {
		roots := x509.NewCertPool()
		pem, err := os.ReadFile(s.Authority)
		check(err)
		if !roots.AppendCertsFromPEM(pem) {
			check(fmt.Errorf("%s has no certificate", s.Authority))
		}
		config := &tls.Config{RootCAs: roots}
		if s.Certificate != "" {
			own, err := tls.LoadX509KeyPair(s.Certificate, s.Key)
			check(err)
			config.Certificates = []tls.Certificate{own}
		}
		chosen = append(chosen, kgo.DialTLSConfig(config))
	}
	if s.Mechanism != "" {
		chosen = append(chosen, kgo.SASL(s.mechanism()))
	}
	return chosen
}

func (s security) mechanism() sasl.Mechanism {
	login := scram.Auth{User: s.User, Pass: s.Password, IsToken: s.IsToken}
	switch s.Mechanism {
	case "PLAIN":
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return login.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return login.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) { return oauth.Auth{Token: s.Token}, nil })
	}
	check(fmt.Errorf("there is no mechanism %s", s.Mechanism))
	return nil
}

// connection takes --security=FILE off the arguments, and returns the options that say how every client connects.
func connection() []kgo.Opt {
	path, isGiven := strings.CutPrefix(os.Args[1], "--security=")
	if !isGiven {
		return nil
	}
	os.Args = append(os.Args[:1], os.Args[2:]...)
	text, err := os.ReadFile(path)
	check(err)
	var said security
	check(json.Unmarshal(text, &said))
	return said.options()
}
