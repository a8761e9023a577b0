package api_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

func TestParseTokens(t *testing.T) {
	secret := strings.Repeat("s", 16)
	all := api.DefaultRoles | api.RoleWire
	for text, want := range map[string][]api.Token{
		secret:                              {{Roles: api.DefaultRoles, Secret: []byte(secret)}},
		"\ufeff" + secret + "\r\n":          {{Roles: api.DefaultRoles, Secret: []byte(secret)}},
		"# c\n\n  " + secret + "  \n":       {{Roles: api.DefaultRoles, Secret: []byte(secret)}},
		"alice:read:" + secret:              {{Name: "alice", Roles: api.RoleRead, Secret: []byte(secret)}},
		"a-1_b:switch:" + secret:            {{Name: "a-1_b", Roles: api.RoleRead | api.RoleSwitch, Secret: []byte(secret)}},
		"ci:fault,switch:" + secret:         {{Name: "ci", Roles: api.DefaultRoles, Secret: []byte(secret)}},
		"ci:wire:" + secret:                 {{Name: "ci", Roles: api.RoleWire, Secret: []byte(secret)}},
		"ci:fault,switch,wire:a:b" + secret: {{Name: "ci", Roles: all, Secret: []byte("a:b" + secret)}},
		"cn:Lab One:switch,wire":            {{Name: "Lab One", Roles: api.RoleRead | api.RoleSwitch | api.RoleWire, Certificate: "Lab One"}},
		// Every other line is one token, as before.
		"alice:read:short-of-16-b":                  {{Roles: api.DefaultRoles, Secret: []byte("alice:read:short-of-16-b")}},
		"Alice:read:" + secret:                      {{Roles: api.DefaultRoles, Secret: []byte("Alice:read:" + secret)}},
		"alice:root:" + secret:                      {{Roles: api.DefaultRoles, Secret: []byte("alice:root:" + secret)}},
		"alice:read,:" + secret:                     {{Roles: api.DefaultRoles, Secret: []byte("alice:read,:" + secret)}},
		strings.Repeat("a", 33) + ":read:" + secret: {{Roles: api.DefaultRoles, Secret: []byte(strings.Repeat("a", 33) + ":read:" + secret)}},
	} {
		got, err := api.ParseTokens([]byte(text))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for text, want := range map[string]string{
		"": "no token in it", "# none": "no token in it", "short": "a token has 5 bytes and needs 16", "cn:x:root": "has 9 bytes",
		strings.Repeat("x", 70_000): "too long",
	} {
		if got, err := api.ParseTokens([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, %v; want an error with %q", text, got, err, want)
		}
	}
	if got, err := api.FirstToken([]byte("\ufeffcn:lab:read\nalice:read:" + secret)); got != secret || err != nil {
		t.Errorf("the first token: %q, %v", got, err)
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain, grün, 日本": "plain, grün, 日本", "a\nb\tc\rd": "a b c d", "\x1b[2J\x07": "�[2J�", "\u009b31m": "�31m",
		"\u202egnp.exe": "�gnp.exe", "\u2028x\u2029": "�x�", "\xff\xfe": "��", "\x7f\x00": "��", "\ufeffx": "�x",
	} {
		if got := api.Printable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzParseTokens(f *testing.F) {
	f.Add([]byte("alice:read,wire:0123456789abcdef\ncn:Lab:switch\n# c\n\ufeff0123456789abcdef"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := api.ParseTokens(text)
		if err != nil {
			return
		}
		for _, token := range list {
			switch {
			case token.Secret == nil && token.Certificate == "", token.Roles == 0:
				t.Errorf("%q: %+v", text, token)
			case token.Secret != nil && len(token.Secret) < 16:
				t.Errorf("%q: a short token %q", text, token.Secret)
			case token.Name == "" && token.Roles != api.DefaultRoles:
				t.Errorf("%q: roles without a name: %+v", text, token)
			}
		}
	})
}

func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b[31m\u202e\n\xff")
	f.Fuzz(func(t *testing.T, text string) {
		if got := api.Printable(text); got != api.Printable(got) {
			t.Errorf("%q: %q is not printable", text, got)
		}
	})
}
