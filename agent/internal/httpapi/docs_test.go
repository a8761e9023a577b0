package httpapi_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
)

// docs is the description of the API, with examples.
const docs = "../../../docs/agent/api.md"

// word is one argument of a command line as the examples write them.
var word = regexp.MustCompile(`'[^']*'|\S+`)

// The examples of the documentation are what the agent answers, in their order.
func TestTheExamplesOfTheDocumentation(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	a := agenttest.Start(t, agenttest.Ports(2))
	examples := 0
	for block := range strings.SplitSeq(string(text), "```console\n") {
		block, _, found := strings.Cut(block, "```\n")
		if !found || !strings.HasPrefix(block, "$ ") {
			continue
		}
		for example := range strings.SplitSeq(strings.TrimPrefix(block, "$ "), "\n$ ") {
			command, want, _ := strings.Cut(example, "\n")
			runExample(t, a, command, strings.TrimSuffix(want, "\n"))
			examples++
		}
	}
	if examples < 25 {
		t.Errorf("%d examples were found, want all", examples)
	}
}

func runExample(t *testing.T, a *agenttest.Agent, command, want string) {
	t.Helper()
	method, body, url := "GET", "", ""
	words := word.FindAllString(command, -1)
	for i := 1; i < len(words); i++ {
		switch w := strings.Trim(words[i], "'"); w {
		case "-s":
		case "-X":
			i++
			method = words[i]
		case "-H":
			i++ // always Content-Type: application/json
		case "-d":
			i++
			body = strings.Trim(words[i], "'")
		default:
			url = strings.Replace(w, "http://127.0.0.1:8080", a.URL, 1)
		}
	}
	got := strings.TrimSuffix(call(t, method, url, body).body, "\n")
	quoted := regexp.QuoteMeta(want)
	pattern := regexp.MustCompile(`(?s)^` + strings.ReplaceAll(quoted, "…", ".*") + `$`)
	if !pattern.MatchString(got) {
		t.Errorf("%s\ngot  %s\nwant %s", command, got, want)
	}
}
