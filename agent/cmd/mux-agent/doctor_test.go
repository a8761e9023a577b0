package main

import (
	"bytes"
	"errors"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/internal/agentproc"
	"github.com/sonic-mux/terraform-provider-mux/internal/ovstest"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// examineOVS runs doctor and returns what it printed and its exit code.
func examineOVS(t *testing.T, o *ovstest.OVS, args ...string) (printed string, code int) {
	t.Helper()
	root := newRoot()
	root.SetArgs(append([]string{"doctor", "--ovs-rundir", o.RunDir}, args...))
	var out bytes.Buffer
	root.SetOut(&out)
	if err := root.ExecuteContext(t.Context()); err != nil {
		code = exitCode(err)
	}
	return out.String(), code
}

func TestDoctorOnOVS(t *testing.T) {
	o := ovstest.Start(t)
	muxes := o.AddMuxes("vms17-8", 4)
	o.SetTestbedFlows(muxes...)
	url := agentproc.StartReady(t, agentproc.Config{VMSet: "vms17-8", RunDir: o.RunDir}).URL

	printed, code := examineOVS(t, o, "--endpoint", url)
	want(t, printed,
		`^ok     OVS database   .*/db\.sock takes connections$`,
		`^ok     OVS bridges    4 bridges can be reached and speak OpenFlow 1\.4$`,
		`^ok     listener       port \d+: process \d+ on 127\.0\.0\.1:\d+: `,
		`^ok     agent          mux-agent dev answers at http://127`,
		`^ok     vm_set vms17-8 4 of 4 ports are healthy$`)
	if code != 0 {
		t.Errorf("exit code %d, with everything well", code)
	}

	o.Vsctl("set", "bridge", muxes[1].Bridge, "protocols=OpenFlow10,OpenFlow13")
	o.Ofctl("add-flow", muxes[2].Bridge, "priority=7,arp,actions=drop")
	wait.For(t, "the foreign flow is found", func() bool {
		printed, code = examineOVS(t, o, "--endpoint", url)
		return strings.Contains(printed, "foreign flow")
	})
	want(t, printed,
		`^WRONG  OVS bridges    mbr-vms17-8-1 exclude OpenFlow 1\.4 by their protocols$`,
		`^ {22}→ ovs-vsctl clear bridge mbr-vms17-8-1 protocols, and so for each$`,
		`^WRONG  vm_set vms17-8 port 2: foreign flow: `,
		`^ {22}→ mux-agent reset 2 removes it; ovs-ofctl dump-flows mbr-vms17-8-2 shows it$`)
	if code != exitFound {
		t.Errorf("exit code %d, want %d", code, exitFound)
	}

	o.Vswitchd.Stop()
	printed, _ = examineOVS(t, o, "--endpoint", url)
	want(t, printed, `^WRONG  OVS bridges `)
	o.Vswitchd.Start()
}

// A socket of Open vSwitch whose process hangs takes connections and says nothing.
func TestHelloOfNobody(t *testing.T) {
	path := t.TempDir() + "/mbr-vms1-0.mgmt"
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{
		"closed at once":               "",
		"hello of OpenFlow 1.0 to 1.3": "\x04\x00\x00\x10\x00\x00\x00\x01\x00\x01\x00\x08\x00\x00\x00\x1e",
		"hello without a bitmap":       "\x05\x00\x00\x08\x00\x00\x00\x01",
		"an old hello":                 "\x01\x00\x00\x08\x00\x00\x00\x01",
	}
	wants := map[string]error{"closed at once": errSilent, "hello of OpenFlow 1.0 to 1.3": errNoOpenFlow14, "an old hello": errNoOpenFlow14}
	said := make(chan string)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for text := range said {
			conn, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = conn.Write([]byte(text))
			_ = conn.Close()
		}
	}()
	for what, text := range answers {
		said <- text
		if err := hello(t.Context(), path); !errors.Is(err, wants[what]) {
			t.Errorf("%s: %v, want %v", what, err, wants[what])
		}
	}
	close(said)
	<-ended
	_ = l.Close()
	if err := hello(t.Context(), path); err == nil {
		t.Error("nobody is there, and no error")
	}
}

func want(t *testing.T, printed string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !regexp.MustCompile("(?m)" + line).MatchString(printed) {
			t.Errorf("no line like %q in:\n%s", line, printed)
		}
	}
}
