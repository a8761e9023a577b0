package api

import _ "embed"

// OpenAPI is the reference of the API, an OpenAPI 3.0 document in YAML.
//
//go:embed openapi.yaml
var OpenAPI []byte
