package agent

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/httpapi"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// tokens are those of a file, as api.ParseTokens reads it.
type tokens struct{ file *fileValue[tokenList] }

// A tokenList keeps no token: only what tells one again.
type tokenList struct {
	tokens       []knownToken
	certificates map[string]api.Roles // by common name
}

type knownToken struct {
	sum [sha256.Size]byte
	who httpapi.Caller
}

func newTokens(path string, log *slog.Logger) (*tokens, error) {
	file, err := newFileValue(log, func() (tokenList, error) { return loadTokens(path, log) }, path)
	return &tokens{file}, err
}

func loadTokens(path string, log *slog.Logger) (tokenList, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return tokenList{}, fmt.Errorf("--token-file: %w", err)
	}
	parsed, err := api.ParseTokens(text)
	if err != nil {
		return tokenList{}, fmt.Errorf("--token-file %s: %w", path, err)
	}
	list := tokenList{certificates: map[string]api.Roles{}}
	for _, t := range parsed {
		if t.Secret == nil {
			list.certificates[t.Certificate] |= t.Roles
			continue
		}
		list.tokens = append(list.tokens, knownToken{sha256.Sum256(t.Secret), httpapi.Caller{Name: t.Name, Roles: t.Roles}})
	}
	checkMode(path, "tokens", log)
	return list, nil
}

// find takes the same time for every wrong token.
func (l tokenList) find(token string) (httpapi.Caller, bool) {
	sum := sha256.Sum256([]byte(token))
	found := -1
	for i := range l.tokens {
		if subtle.ConstantTimeCompare(l.tokens[i].sum[:], sum[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return httpapi.Caller{}, false
	}
	return l.tokens[found].who, true
}

// A guard tells who asks at the address for clients with a token, a certificate or both.
type guard struct {
	tokens   *tokens                    // nil where none are asked for
	noTokens bool                       // at the start the file had no token, only roles of certificates
	clients  *fileValue[*x509.CertPool] // nil where no client certificate is asked for
	first    *x509.CertPool             // of clients, at the start
}

// identify returns who asks, and an error where the agent is not to answer.
func (g *guard) identify(r *http.Request) (who httpapi.Caller, err error) {
	var list tokenList
	if g.tokens != nil {
		if list, err = g.tokens.file.get(); err != nil {
			return who, fmt.Errorf("--token-file: %w", err)
		}
	}
	who.Roles = api.DefaultRoles
	if g.clients != nil {
		name, err := g.certified(r)
		if err != nil {
			return who, err
		}
		who.Name = strings.Clone(strings.ToValidUTF8(name[:min(len(name), maxName)], ""))
		if roles, ok := list.certificates[name]; ok {
			who.Roles = roles
		}
	}
	if g.tokens == nil || g.noTokens && len(list.tokens) == 0 {
		return who, nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	by, ok := list.find(strings.TrimSpace(token))
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return httpapi.Caller{}, httpapi.ErrNoToken
	}
	if g.clients != nil { // both are asked for, so what both allow
		by.Roles &= who.Roles
	}
	return httpapi.Caller{Name: cmp.Or(by.Name, who.Name), Roles: by.Roles}, nil
}

// maxName is how much of a certificate's name is told, in bytes.
const maxName = 64

// certified returns the common name of the client's certificate. The authorities may have changed since the connection came.
func (g *guard) certified(r *http.Request) (name string, err error) {
	pool, err := g.clients.get()
	if err != nil {
		return "", fmt.Errorf("--client-ca: %w", err)
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return "", errors.New("no client certificate")
	}
	chain := r.TLS.PeerCertificates
	if pool != g.first && !trusts(pool, chain) {
		return "", errors.New("the client certificate is no longer trusted")
	}
	return chain[0].Subject.CommonName, nil
}

// trusts reports whether an authority of the pool has signed a client's certificate.
func trusts(pool *x509.CertPool, chain []*x509.Certificate) bool {
	between := x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil
}
