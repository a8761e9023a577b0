package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

// What an endpoint answers is told in errors, which end on terminals, in logs and in Terraform's diagnostics.
func TestErrorsArePrintable(t *testing.T) {
	const evil = "e\x1b[2J\u009b31m\u202egnp\nforged"
	for name, answer := range map[string]func(http.ResponseWriter){
		"JSON": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Mux-Error-Code", "\u009bcode")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, strings.ReplaceAll(`{"err_msg":"E","failed":{"E":{"code":"E","err_msg":"E"}}}`, "E", `e\u001b[2J\u009b31m\u202egnp\nforged`))
		},
		"text": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, evil)
		},
		"redirect": func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://x/\x1b[2J\u202e")
			w.WriteHeader(http.StatusFound)
		},
		"no JSON": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "\x1b[2J")
		},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
		c, err := client.New(client.Config{Endpoint: server.URL, MaxElapsed: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.All(t.Context(), "x")
		if err == nil || strings.ContainsFunc(err.Error()+client.Code(err), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: %q", name, err)
		}
		c.Close()
		server.Close()
	}
}

func FuzzRefusals(f *testing.F) {
	f.Add(400, "application/json", []byte(`{"err_msg":"x","failed":{"b":{"code":"c","err_msg":"w","retryable":true}}}`))
	f.Add(503, "text/plain", []byte("\x1b[2J\xff"))
	f.Add(200, "application/json", []byte(`{"a":{}}`))
	f.Fuzz(func(t *testing.T, status int, kind string, body []byte) {
		if status < 200 || status > 499 || strings.ContainsAny(kind, "\r\n\x00") || status == http.StatusTooManyRequests {
			return
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = w.Write(body)
		}))
		defer server.Close()
		c, err := client.New(client.Config{Endpoint: server.URL, MaxElapsed: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err = c.All(t.Context(), "x"); err != nil && strings.ContainsFunc(err.Error()+client.Code(err), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q", err)
		}
	})
}
