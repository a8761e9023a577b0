package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sonic-mux/terraform-provider-mux/agent"
)

// serveFlags are the flags of serve that agent.Config does not hold.
type serveFlags struct {
	reopen    func() // closes the log file, so that the next line opens it by its name
	logFile   string
	logLevel  string
	logFormat string
}

func newServe() *cobra.Command {
	var cfg agent.Config
	var own serveFlags
	cmd := &cobra.Command{
		Use:   "serve --listen 127.0.0.1:8080 --vm-set vms17-8",
		Short: "Serve the mux HTTP API of one testbed",
		Long: `serve reads the bridges of a vm_set from Open vSwitch, adopts the active side that it finds on each, repairs each
mux that is not a proper cable, and serves the mux HTTP API until it gets SIGTERM or SIGINT. It waits for an Open vSwitch that does
not run yet.

Every flag has an environment variable: MUX_AGENT_VM_SET for --vm-set, and so on. The flag wins. A variable with this beginning
that no flag has is refused. The exit code is 78 when a flag, a variable or a file is wrong.`,
		GroupID: groupServe,
		Args:    usageArgs(cobra.NoArgs),
		PreRunE: func(cmd *cobra.Command, _ []string) error { return setFromEnvironment(cmd.Flags()) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("allow-cidr") && len(cfg.AllowCIDRs) == 0 {
				return usageError{errors.New("--allow-cidr is empty, which would let everybody in: name a network, or leave it out")}
			}
			log, closeLog, err := own.open(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer closeLog()
			reload := make(chan struct{}, 1)
			defer onHangup(func() {
				own.reopen() // the next line opens the file again
				select {
				case reload <- struct{}{}:
				default: // one is to come
				}
				log.Info("reloaded")
			})()
			cfg.Log, cfg.Version, cfg.Reload = log, version, reload
			listening := func(scheme string) func(net.Addr) {
				return func(addr net.Addr) {
					_ = newScreen(cmd.OutOrStdout()).printf("mux-agent: listening on %s://%s\n", scheme, addr)
				}
			}
			cfg.Listening, cfg.ListeningAuth = listening("http"), listening("http")
			if cfg.TLSCert != "" {
				cfg.ListeningAuth = listening("https")
			}
			return agent.Run(cmd.Context(), cfg)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&cfg.Listen, "listen", "127.0.0.1:8080", "`address` of the HTTP API; port 0 takes a free one and prints it")
	flags.StringSliceVar(&cfg.VMSets, "vm-set", nil, "`name` of the testbed to serve; may repeat")
	flags.StringVar(&cfg.Driver, "driver", agent.DriverOpenFlow, "how the switch is driven: openflow, ovs-ofctl or simulated")
	flags.StringVar(&cfg.Watch, "watch", agent.WatchAuto, "how changes on the switch are seen: auto (told by Open vSwitch from 3.0 on) or poll")
	flags.IntVar(&cfg.SimulatePorts, "simulate-ports", 12, "`number` of ports of the simulated switch")
	flags.StringVar(&cfg.OVSRunDir, "ovs-rundir", defaultRunDir(), "`directory` of Open vSwitch's sockets; also OVS_RUNDIR")
	flags.DurationVar(&cfg.ChangeTimeout, "change-timeout", 3*time.Second, "how long the switch may take for one change")
	flags.BoolVar(&cfg.KeepDrops, "keep-drops", false, "leave dropped ports dropped at the start")
	flags.BoolVar(&cfg.KeepFailMode, "keep-fail-mode", false, "don't set fail_mode=secure on the bridges")
	flags.BoolVar(&cfg.Verbose, "verbose", false, "add the chain of errors, traceback, to error bodies")
	flags.StringSliceVar(&cfg.AllowCIDRs, "allow-cidr", nil, "`network` whose clients may connect, such as 10.0.0.0/8; may repeat, the default is all")
	flags.StringSliceVar(&cfg.AllowHosts, "allow-host", nil, "`name` by which browsers may open the agent's page, besides addresses, localhost and the server's own; .example.com is all below it; may repeat")
	flags.StringVar(&cfg.ListenAuth, "listen-auth", "", "`address` for clients with a token, a certificate or, where both are asked for, both")
	flags.StringVar(&cfg.TokenFile, "token-file", "", "`file` of the tokens for --listen-auth, one a line, TOKEN or NAME:ROLES:TOKEN; read again when it changes")
	flags.StringVar(&cfg.ClientCA, "client-ca", "", "`file` of the authorities of client certificates for --listen-auth; read again when it changes")
	flags.StringVar(&cfg.TLSCert, "tls-cert", "", "`file` of the certificate of --listen-auth; read again when it changes")
	flags.StringVar(&cfg.TLSKey, "tls-key", "", "`file` of the key of --tls-cert")
	flags.StringVar(&own.logFile, "log-file", "", "`file` to log to, rotated; the default is standard error")
	flags.StringVar(&own.logFormat, "log-format", "text", "`format` of the log: text or json")
	flags.StringVar(&own.logLevel, "log-level", "info", "`level` of the log: debug, info, warn or error")
	completeFlag(cmd, "driver", agent.DriverOpenFlow, agent.DriverOfctl, agent.DriverSimulated)
	completeFlag(cmd, "watch", agent.WatchAuto, agent.WatchPoll)
	completeFlag(cmd, "log-format", agent.LogText, agent.LogJSON)
	completeFlag(cmd, "log-level", "debug", "info", "warn", "error")
	return cmd
}

// onHangup calls reload at each SIGHUP until stop is called.
func onHangup(reload func()) (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range hangups {
			reload()
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
		<-done
	}
}

func defaultRunDir() string {
	if dir := os.Getenv("OVS_RUNDIR"); dir != "" {
		return dir
	}
	return agent.DefaultOVSRunDir
}

// open makes the log. A file that can't be written is a warning on standard error, where the log then goes.
func (f *serveFlags) open(stderr io.Writer) (log *slog.Logger, closeLog func(), err error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, nil, usageError{fmt.Errorf("--log-level %q: want debug, info, warn or error", f.logLevel)}
	}
	if f.logFormat != agent.LogText && f.logFormat != agent.LogJSON {
		return nil, nil, usageError{fmt.Errorf("--log-format %q: want text or json", f.logFormat)}
	}
	var out io.Writer = stderr
	f.reopen = func() {}
	var failed error
	if f.logFile != "" {
		var file *agent.LogFile
		if file, failed = agent.OpenLogFile(f.logFile, stderr); failed == nil {
			out, f.reopen = file, func() { _ = file.Close() }
		}
	}
	queue := agent.NewLogQueue(out)
	log = slog.New(agent.NewLogHandler(queue, f.logFormat, level))
	if failed != nil {
		log.Warn("logging to standard error instead", "err", failed)
	}
	return log, func() {
		queue.Close()
		f.reopen()
	}, nil
}
