package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
	"github.com/sonic-mux/terraform-provider-mux/internal/client"
)

// defaultEndpoint is where serve listens when nothing else is said.
const defaultEndpoint = "http://127.0.0.1:8080"

// remote is the agent that a command asks, as its flags and the environment name it.
type remote struct {
	endpoint string
	vmSet    string
	timeout  time.Duration // for a call with all its tries
	json     bool
	wide     bool // tables have all columns
	yes      bool // nobody is asked
	stream   bool // the command prints line by line

	tokenFile                     string
	caCert, clientCert, clientKey string // files
	insecure                      bool

	client *client.Client
}

// newRemoteCommand makes cmd one that asks an agent. run is called with a client, and the vm_set known.
func newRemoteCommand(cmd *cobra.Command, run func(cmd *cobra.Command, r *remote, args []string) error) *cobra.Command {
	_, cmd = addRemoteCommand(cmd, run)
	return cmd
}

// newPortsCommand makes cmd one whose first argument is ports. The shell offers these, and for the arguments behind it sides.
func newPortsCommand(cmd *cobra.Command, sides []string, run func(cmd *cobra.Command, r *remote, args []string) error) (*remote, *cobra.Command) {
	r, cmd := addRemoteCommand(cmd, run)
	cmd.ValidArgsFunction = completePorts(r, sides...)
	return r, cmd
}

func addRemoteCommand(cmd *cobra.Command, run func(cmd *cobra.Command, r *remote, args []string) error) (*remote, *cobra.Command) {
	r := addRemote(cmd)
	cmd.GroupID = groupRemote
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := r.connect(cmd.Context())
		if err == nil {
			defer r.client.Close()
			err = run(cmd, r, args)
		}
		why := r.explain(err)
		if why != nil && r.json && !r.stream {
			return errors.Join(why, printJSON(cmd, reportOf(err, why)))
		}
		return why
	}
	return r, cmd
}

// A report is what a command that fails prints as JSON: why, and what is known of the ports, as the API says it.
type report struct {
	ErrMsg   string                 `json:"err_msg"`
	Failed   map[string]api.Failure `json:"failed,omitempty"` // by bridge
	Muxes    api.Muxes              `json:"muxes,omitempty"`
	Rejected []api.Rejected         `json:"rejected,omitempty"`
}

// A reportedError is one with more to tell in JSON. Without JSON the command has told it.
type reportedError struct {
	error
	report
}

func (e reportedError) Unwrap() error { return e.error }

func reportOf(err, why error) report {
	said := reportedError{}
	errors.As(err, &said)
	said.ErrMsg = why.Error()
	return said.report
}

// addRemote adds the flags that name an agent.
func addRemote(cmd *cobra.Command) *remote {
	r := &remote{}
	cmd.Args = usageArgs(cmd.Args)
	flags := cmd.Flags()
	format := ""
	cmd.PreRunE = func(*cobra.Command, []string) error {
		switch {
		case format != "" && !slices.Contains(formats, format):
			return usageError{fmt.Errorf("--output %q: want %s", format, strings.Join(formats, ", "))}
		case r.json && format != "" && format != formatJSON:
			return usageError{fmt.Errorf("--json and --output %s can't both be", format)}
		}
		r.json, r.wide = r.json || format == formatJSON, format == formatWide
		for name, variable := range map[string]string{"endpoint": "MUX_ENDPOINT", "vm-set": "MUX_VM_SET"} {
			if text := os.Getenv(variable); text != "" && !flags.Changed(name) {
				if err := flags.Set(name, text); err != nil {
					return err
				}
			}
		}
		return nil
	}
	flags.StringVar(&r.endpoint, "endpoint", defaultEndpoint, "`URL` of the agent; also MUX_ENDPOINT")
	flags.StringVar(&r.vmSet, "vm-set", "", "`name` of the testbed; also MUX_VM_SET; the default is the only one that the agent serves")
	flags.StringVarP(&format, "output", "o", "", "`format` of what is printed: table, wide (all columns) or json (as the API has it)")
	flags.BoolVar(&r.json, "json", false, "the same as --output json")
	flags.StringVar(&r.tokenFile, "token-file", "", "`file` with the token of the agent; a token itself can be in MUX_TOKEN")
	flags.StringVar(&r.caCert, "ca-cert", "", "PEM `file` of the authority to trust, for https")
	flags.StringVar(&r.clientCert, "client-cert", "", "PEM `file` of the certificate to show, for https")
	flags.StringVar(&r.clientKey, "client-key", "", "PEM `file` of its key")
	flags.BoolVar(&r.insecure, "insecure-skip-verify", false, "trust any certificate")
	flags.DurationVar(&r.timeout, "timeout", client.DefaultRequestTimeout, "how long to try")
	completeFlag(cmd, "output", formats...)
	if err := cmd.RegisterFlagCompletionFunc("vm-set", completeVMSets(r)); err != nil {
		panic(err) // there is no such flag
	}
	return r
}

// What --output takes.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
)

var formats = []string{formatTable, formatWide, formatJSON}

// usageArgs makes what is wrong with the arguments a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{fmt.Errorf("%w; usage: %s", err, cmd.UseLine())}
		}
		return nil
	}
}

// connect makes the client, and asks for the vm_set where none was named.
func (r *remote) connect(ctx context.Context) error {
	cfg, err := r.config()
	if err != nil {
		return usageError{err}
	}
	if r.client, err = client.New(cfg); err != nil {
		return usageError{err}
	}
	if r.vmSet != "" {
		return nil
	}
	overview, err := r.client.Overview(ctx)
	if client.Code(err) == api.CodeNotFound {
		return usageError{fmt.Errorf("%s does not tell which vm_set it serves: name it with --vm-set or MUX_VM_SET", r.endpoint)}
	}
	if err != nil {
		return r.explain(err)
	}
	names := slices.Sorted(maps.Keys(overview.VMSets))
	if len(names) != 1 {
		return usageError{fmt.Errorf("the agent serves %s: choose with --vm-set or MUX_VM_SET", strings.Join(names, ", "))}
	}
	r.vmSet = names[0]
	return nil
}

// config reads the files that the flags name.
func (r *remote) config() (client.Config, error) {
	cfg := client.Config{Endpoint: r.endpoint, MaxElapsed: r.timeout, UserAgent: "mux-agent/" + version, Token: os.Getenv("MUX_TOKEN")}
	texts := map[string]string{}
	for _, name := range []string{r.tokenFile, r.caCert, r.clientCert, r.clientKey} {
		if name == "" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return cfg, err
		}
		texts[name] = string(text)
	}
	var err error
	if r.tokenFile != "" {
		if cfg.Token, err = api.FirstToken([]byte(texts[r.tokenFile])); err != nil {
			return cfg, fmt.Errorf("--token-file %s: %w", r.tokenFile, err)
		}
	}
	cfg.TLS, err = client.TLSConfig(texts[r.caCert], texts[r.clientCert], texts[r.clientKey], r.insecure)
	return cfg, err
}

// werkzeugWords is what the replaced service puts before the words of an error.
var werkzeugWords = regexp.MustCompile(`^<\w+ '[^']*'> \d{3} [A-Z][\w ]*: (remote_addr=.* msg=)?`)

// explain says in our words what a person can do about a failure of the client.
func (r *remote) explain(err error) error {
	e := (*client.Error)(nil)
	if !errors.As(err, &e) {
		return err
	}
	said := werkzeugWords.ReplaceAllString(e.ErrMsg, "")
	switch e.Code {
	case client.CodeUnreachable, client.CodeTimeout:
		if e.Err != nil {
			return fmt.Errorf("no answer from %s: %w; is the agent running there? see --endpoint, and mux-agent doctor on the server", r.endpoint, e.Err)
		}
	case client.CodeUnauthorised, api.CodeUnauthorized:
		return fmt.Errorf("%s does not let us in: %s; see --token-file, MUX_TOKEN and --client-cert", r.endpoint, e.Reason())
	case client.CodeNotAnAgent:
		return fmt.Errorf("what answers at %s is not a mux agent: %s; see --endpoint", r.endpoint, e.Reason())
	case api.CodeUnknownVMSet:
		return fmt.Errorf("the agent at %s does not serve vm_set %s; see --vm-set, and GET %s/mux", r.endpoint, r.vmSet, r.endpoint)
	case api.CodeNotReached:
		return exitError{exitFound, errors.New(said)}
	case api.CodeNotFound:
		return fmt.Errorf("%s does not know %s: only mux-agent has it, not mux_simulator.py", r.endpoint, e.URL)
	}
	if said == "" || len(e.Failed) > 0 {
		return e
	}
	if e.MayHaveLanded {
		said += " (the change may have been done all the same)"
	}
	return errors.New(said)
}

// printJSON writes a value as the API would, but for people: indented.
func printJSON(cmd *cobra.Command, v any) error { return newScreen(cmd.OutOrStdout()).json(v, "  ") }
