// Command mux-agent serves the mux HTTP API of a SONiC dual-ToR testbed.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set at link time.
var version = "dev"

func main() { os.Exit(run(os.Args[1:])) }

// run returns the exit code, as the help lists them.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	if len(args) == 1 && portNumber.MatchString(args[0]) { // as mux_simulator.py does with too few arguments
		_ = root.Help()
		return 1
	}
	root.SetArgs(legacyArgs(args))
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil {
		_ = newScreen(os.Stderr).printf("mux-agent: %s\n", err)
		if cmd.Name() == "serve" && isSetting(err) {
			return exitSetting
		}
		return exitCode(err)
	}
	return 0
}
