// terraform-provider-mux manages the muxes of SONiC dual-ToR testbeds through mux-agent.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/sonic-mux/terraform-provider-mux/provider"
)

var version = "dev" // set by the release

func main() {
	debug := flag.Bool("debug", false, "wait for a debugger; prints the TF_REATTACH_PROVIDERS to run terraform with")
	flag.Parse()
	opts := providerserver.ServeOpts{Address: "registry.terraform.io/sonic-mux/mux", Debug: *debug}
	if err := providerserver.Serve(context.Background(), provider.New(version), opts); err != nil {
		log.Fatal(err)
	}
}
