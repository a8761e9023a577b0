package ofctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/digitalocean/go-openvswitch/ovs"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
)

// A process is one run of ovs-ofctl, and what came of it.
type process struct {
	ctx     context.Context
	timeout time.Duration // that of ctx, for messages
	turns   chan struct{}

	started bool
	stdout  []byte
	stderr  []byte
	err     error // of the run itself
}

// client returns go-openvswitch's client with p as its way to run a program. It takes no context and no timeout, and it
// drops what the program said, so all that is p's.
func (p *process) client() *ovs.Client {
	return ovs.New(
		ovs.Protocols([]string{ovs.ProtocolOpenFlow14}),
		ovs.Exec(func(cmd string, args ...string) ([]byte, error) {
			if err := p.run(nil, cmd, args); err != nil {
				return nil, err
			}
			// The library's own reading of flows takes a missing priority for 0, skips what it doesn't know in a match, and
			// fails on actions that it doesn't know. It is given the heading to check; parseDump reads the rest.
			heading, _, _ := bytes.Cut(p.stdout, []byte("\n"))
			return heading, nil
		}),
		ovs.Pipe(func(stdin io.Reader, cmd string, args ...string) ([]byte, error) {
			return nil, p.run(stdin, cmd, args)
		}),
	)
}

// run runs the program in its turn, and kills it when the context ends.
func (p *process) run(stdin io.Reader, name string, args []string) error {
	select {
	case p.turns <- struct{}{}:
		defer func() { <-p.turns }()
	case <-p.ctx.Done():
		p.err = p.ctx.Err()
		return p.err
	}
	// With port names ovs-ofctl opens several connections more, and prints what can't be parsed.
	cmd := exec.CommandContext(p.ctx, name, append([]string{"--no-names"}, args...)...)
	// A child of the program could hold its output open for longer than the program lives.
	cmd.WaitDelay = p.timeout
	var stdout, stderr output
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	if p.err = cmd.Start(); p.err == nil {
		p.started = true
		p.err = cmd.Wait()
	}
	if stdout.full || stderr.full {
		p.err = errEndless // which ended the program, so that it has no better word
	}
	p.stdout, p.stderr = stdout.text.Bytes(), stderr.text.Bytes()
	return p.err
}

// An output is what a program prints, up to a bound: it may speak to anybody at a bridge's socket.
type output struct {
	text bytes.Buffer
	full bool
}

// maxOutput bounds it, in bytes: some hundred thousand flows.
const maxOutput = 16 << 20

var errEndless = fmt.Errorf("ovs-ofctl's answer has no end: it has more than %d MB", maxOutput>>20)

func (o *output) Write(p []byte) (int, error) {
	if o.text.Len()+len(p) > maxOutput {
		o.full = true
		return 0, errEndless
	}
	return o.text.Write(p)
}

// failure tells why a call failed. err is the library's error.
func (p *process) failure(bridge, op string, err error) *cable.SwitchError {
	e := &cable.SwitchError{Bridge: bridge, Op: op}
	var exit *exec.ExitError
	switch words := p.words(); {
	case p.err == nil:
		e.Err = err
	case p.ctx.Err() != nil:
		e.Unknown, e.Retryable = p.started, true
		e.Err = fmt.Errorf("no answer within %v", p.timeout)
		switch {
		case errors.Is(p.ctx.Err(), context.Canceled):
			e.Err = p.ctx.Err()
		case !p.started:
			e.Err = fmt.Errorf("its turn did not come within %v; nothing was done", p.timeout)
		}
	case errors.Is(p.err, exec.ErrNotFound):
		e.Err = errors.New("ovs-ofctl is not installed: apt-get install openvswitch-switch")
	case !p.started:
		e.Err = fmt.Errorf("ovs-ofctl: %w", p.err)
	case words == "" || !errors.As(p.err, &exit):
		e.Err, e.Unknown, e.Retryable = fmt.Errorf("ovs-ofctl: %w", p.err), true, true
	default:
		e.Err = errors.New(words)
		e.Retryable = !refused.MatchString(words)
		e.Unknown = e.Retryable && !neverConnected.MatchString(words)
	}
	return e
}

var (
	// refused tells an answer of the switch, or of ovs-ofctl's own parser, which reads all of a bundle before it connects.
	refused = regexp.MustCompile(`\bError OFP|\bovs-ofctl: -:\d+: `)
	// neverConnected tells that nothing of a change has reached the switch.
	neverConnected = regexp.MustCompile(`\bconnecting to |\bfailed to connect |\bis not a bridge or a socket`)
	// logPrefix is what OVS's logger puts before a message: time, sequence number, module, level.
	logPrefix = regexp.MustCompile(`^[^|\s]+\|\d+\|[^|]+\|[A-Z]+\|`)
)

// words returns what ovs-ofctl had to say, in one line.
func (p *process) words() string {
	var lines []string
	for line := range strings.Lines(string(p.stderr)) {
		if line = strings.TrimSpace(logPrefix.ReplaceAllString(line, "")); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}
