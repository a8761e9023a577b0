package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sonic-mux/terraform-provider-mux/agent"
)

// usageError is a command line that can't be understood.
type usageError struct{ error }

func isUsage(err error) bool {
	var u usageError
	return errors.As(err, &u)
}

// exitFound is the exit code of a check that found something.
const exitFound = 3

// exitSetting is the exit code of serve for a wrong call or setting, EX_CONFIG of sysexits.h. The units don't start it again
// then. It is not 2, with which Go ends a program that panics: that must be started again.
const exitSetting = 78

// isSetting reports whether serve was called or set wrongly.
func isSetting(err error) bool {
	var setting agent.SettingError
	return isUsage(err) || errors.As(err, &setting)
}

// exitError ends the program with a code of its own.
type exitError struct {
	code int
	error
}

func (e exitError) Unwrap() error { return e.error }

// exitCode is 1 for errors that don't say otherwise.
func exitCode(err error) int {
	own := exitError{code: 1}
	if isUsage(err) {
		return 2
	}
	errors.As(err, &own)
	return own.code
}

// Groups of commands in the help.
const (
	groupServe  = "serve"
	groupRemote = "remote"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "mux-agent",
		Short: "Serve and switch the simulated Y-cables of a SONiC dual-ToR testbed",
		Long: `mux-agent serves the mux HTTP API of a SONiC dual-ToR testbed: it reads and switches the active side of
simulated Y-cables, which are Open vSwitch bridges on the test server.

It also runs as mux_simulator.py is called:

  mux-agent <http port> <vm_set> [-v]

which is serve on all IPv4 addresses, with the log in /tmp/mux_simulator_<http port>.log.

PORTS are indexes and ranges such as 0-11,20, or upper, lower, unhealthy, dropped, all, or the name of a bridge or an
interface. A blank between two of these, in quotes, takes what both name: "0-11 unhealthy".

Exit codes: 0 done; 1 failed; 2 a wrong call; 3 a check that found something: wait did not see the side in time, status
--unhealthy listed something, doctor has something for you to do. serve ends with 78 when its settings are wrong.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			if meant := cmd.SuggestionsFor(args[0]); len(meant) > 0 {
				return usageError{fmt.Errorf("unknown command %q; did you mean %s? See mux-agent --help", args[0], strings.Join(meant, " or "))}
			}
			return usageError{fmt.Errorf("unknown command %q; see mux-agent --help", args[0])}
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: 2,
		Version:                    version,
	}
	root.Flags().Bool("version", false, "print the version")
	root.SetVersionTemplate(versionLine())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if meant := similarFlags(cmd, err); len(meant) > 0 {
			return usageError{fmt.Errorf("%w; did you mean %s? See %s --help", err, strings.Join(meant, " or "), cmd.CommandPath())}
		}
		return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	root.AddGroup(&cobra.Group{ID: groupServe, Title: "On the test server:"}, &cobra.Group{ID: groupRemote, Title: "Asking an agent, from anywhere:"})
	root.AddCommand(
		newServe(), newDoctor(),
		newStatus(), newSet(), newToggle(), newDrop(), newOutput(), newReset(), newCounters(), newHistory(), newWatch(), newWait(), newReload(), newLog(),
		newVersion(), newDocs(),
	)
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			// Cobra prints the help for a shell that it doesn't know, and ends with 0.
			cmd.Args, cmd.RunE = usageArgs(cobra.NoArgs), func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	return root
}

// similarFlags returns the flags that somebody may have meant who named one that there is not. Cobra compares commands alone; so
// each flag becomes one for it.
func similarFlags(cmd *cobra.Command, err error) []string {
	unknown := (*pflag.NotExistError)(nil)
	if !errors.As(err, &unknown) {
		return nil
	}
	flags := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	var meant []string
	for _, name := range flags.SuggestionsFor(unknown.GetSpecifiedName()) {
		meant = append(meant, "--"+name)
	}
	return meant
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return newScreen(cmd.OutOrStdout()).printf("%s", versionLine())
		},
	}
}

func versionLine() string {
	return fmt.Sprintf("mux-agent %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

var portNumber = regexp.MustCompile(`^[0-9]+$`)

// legacyArgs turns the arguments of mux_simulator.py into those of serve. They start with a port number, which no command
// does.
func legacyArgs(args []string) []string {
	if len(args) == 0 || !portNumber.MatchString(args[0]) {
		return args
	}
	serve := []string{"serve", "--listen", "0.0.0.0:" + args[0], "--log-file", "/tmp/mux_simulator_" + args[0] + ".log"}
	for i, arg := range args[1:] {
		switch {
		case arg == "-v":
			serve = append(serve, "--verbose", "--log-level", "debug")
		case i == 0:
			serve = append(serve, "--vm-set", arg)
		default:
			serve = append(serve, arg)
		}
	}
	return serve
}

// setFromEnvironment gives every flag that the command line left alone the value of its variable, MUX_AGENT_ and the
// flag's name in capitals. Lists are separated by commas. A variable that no flag has is refused, since it is a slip of the
// finger in a setting that somebody counts on.
func setFromEnvironment(flags *pflag.FlagSet) error {
	var errs []error
	known := map[string]bool{}
	flags.VisitAll(func(f *pflag.Flag) {
		name := envName(f.Name)
		known[name] = true
		text, ok := os.LookupEnv(name)
		if !ok || f.Changed || f.Name == "help" {
			return
		}
		if err := flags.Set(f.Name, text); err != nil {
			errs = append(errs, usageError{fmt.Errorf("%s=%q: %w", name, text, err)})
		}
	})
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) || known[name] {
			continue
		}
		errs = append(errs, usageError{fmt.Errorf("%s is not a setting: the variables of serve are named after its flags, see mux-agent serve --help", name)})
	}
	return errors.Join(errs...)
}

const envPrefix = "MUX_AGENT_"

func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
