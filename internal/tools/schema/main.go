// Command schema prints the provider's schema as `terraform providers schema -json` does, and completely: whatever Terraform
// is installed, or none, it has the functions, actions, list resources and identities. make generate feeds it to tfplugindocs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	tfjson "github.com/hashicorp/terraform-json"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/sonic-mux/terraform-provider-mux/provider"
)

// address is the name under which tfplugindocs looks for the provider.
const address = "mux"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "schema:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx := context.Background()
	server := providerserver.NewProtocol6(provider.New("dev")())()

	schema, err := server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		return fmt.Errorf("get provider schema: %w", err)
	}
	identity, err := server.GetResourceIdentitySchemas(ctx, &tfprotov6.GetResourceIdentitySchemasRequest{})
	if err != nil {
		return fmt.Errorf("get resource identity schemas: %w", err)
	}
	if err := refused(append(schema.Diagnostics, identity.Diagnostics...)); err != nil {
		return err
	}

	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(tfjson.ProviderSchemas{
		FormatVersion: "1.0",
		Schemas:       map[string]*tfjson.ProviderSchema{address: newProvider(schema, identity)},
	})
}

// refused returns the first error among diagnostics.
func refused(diagnostics []*tfprotov6.Diagnostic) error {
	for _, d := range diagnostics {
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			return errors.New(d.Summary + ": " + d.Detail)
		}
	}
	return nil
}
