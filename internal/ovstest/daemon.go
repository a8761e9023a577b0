package ovstest

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/child"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// A Daemon is one of the switch's two processes. Its methods fail the test when the process is not in the state they need.
type Daemon struct {
	o     *OVS
	name  string
	args  []string
	netns string
	proc  *child.Process // nil while stopped
}

// Start starts the daemon and waits until it serves.
func (d *Daemon) Start() {
	d.o.tb.Helper()
	if d.running() {
		d.o.tb.Fatalf("%s runs already", d.name)
	}
	args := append(slices.Clip(d.args),
		"--pidfile="+d.o.path(d.name+".pid"), "--log-file="+d.o.path(d.name+".log"), "-vconsole:off", "--no-chdir")
	// A test's context ends before its cleanups, which still use the switch.
	proc, err := child.Start(d.o.command(context.Background(), d.netns, d.name, args...))
	if err != nil {
		d.o.tb.Fatal(err)
	}
	d.proc = proc

	deadline := time.Now().Add(wait.Limit)
	for !d.serves() {
		if !d.running() {
			d.o.tb.Fatalf("%s exited: %v\n%s", d.name, proc.Err(), tail(d.o.path(d.name+".log"), 60))
		}
		if time.Now().After(deadline) {
			d.o.tb.Fatalf("%s does not serve\n%s", d.name, tail(d.o.path(d.name+".log"), 60))
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// serves reports whether the daemon answers. An ovs-vswitchd does so once its bridges are up, which it tells by taking a
// change from the database.
func (d *Daemon) serves() bool {
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
	defer cancel()
	if err := d.o.command(ctx, "", "ovs-appctl", "--target="+d.name, "version").Run(); err != nil {
		return false
	}
	if d != d.o.Vswitchd {
		return true
	}
	mark := "external_ids:started-pid=" + strconv.Itoa(d.PID())
	return d.o.command(ctx, "", "ovs-vsctl", "set", "Open_vSwitch", ".", mark).Run() == nil
}

// Stop ends the daemon in an orderly way and waits until it is gone.
func (d *Daemon) Stop() { d.o.tb.Helper(); d.end(syscall.SIGTERM) }

// Kill ends the daemon as a crash does.
func (d *Daemon) Kill() { d.o.tb.Helper(); d.end(syscall.SIGKILL) }

// Pause stops the daemon from answering: its sockets stay, and connections to them hang.
func (d *Daemon) Pause() { d.o.tb.Helper(); d.signal(syscall.SIGSTOP) }

// Continue ends a Pause.
func (d *Daemon) Continue() { d.o.tb.Helper(); d.signal(syscall.SIGCONT) }

// PID returns the daemon's process id.
func (d *Daemon) PID() int {
	d.o.tb.Helper()
	if !d.running() {
		d.o.tb.Fatalf("%s does not run", d.name)
	}
	return d.proc.PID()
}

func (d *Daemon) end(sig syscall.Signal) {
	d.o.tb.Helper()
	d.signal(sig)
	select {
	case <-d.proc.Exited():
	case <-time.After(wait.Limit):
		d.o.tb.Fatalf("%s does not end", d.name)
	}
	d.proc = nil
}

func (d *Daemon) signal(sig syscall.Signal) {
	d.o.tb.Helper()
	if !d.running() {
		d.o.tb.Fatalf("%s does not run", d.name)
	}
	if err := d.proc.Signal(sig); err != nil {
		d.o.tb.Fatal(err)
	}
}

func (d *Daemon) running() bool { return d.proc != nil && d.proc.Running() }

// newNetns makes a network namespace that is held by a process, and so goes with it, devices and all.
func (o *OVS) newNetns() {
	o.tb.Helper()
	// cat says that it runs, by repeating a line, and ends with its input.
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	in, err := cmd.StdinPipe()
	if err != nil {
		o.tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		o.tb.Fatal(err)
	}
	holder, err := child.Start(cmd)
	if err != nil {
		o.tb.Fatalf("make a network namespace: %v", err)
	}
	o.tb.Cleanup(func() {
		in.Close()
		<-holder.Exited()
	})
	_, err = in.Write([]byte("up\n"))
	if err == nil {
		_, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil {
		o.tb.Fatalf("make a network namespace: %v", err)
	}
	o.netns = "/proc/" + strconv.Itoa(holder.PID()) + "/ns/net"
	if _, err := os.Stat(o.netns); err != nil {
		o.tb.Fatal(err)
	}
	o.run("nsenter", "--net="+o.netns, "ip", "link", "set", "lo", "up")
}
