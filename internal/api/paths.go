package api

import (
	"net/url"
	"strconv"
)

// Paths outside of a vm_set.
const (
	PathOverview = "/mux"
	PathHealthz  = "/healthz"
	PathReadyz   = "/readyz"
	PathVersion  = "/version"
	PathMetrics  = "/metrics"
	PathOpenAPI  = "/openapi.yaml"
)

// VMSetPath is the path of all ports of a vm_set: GET, POST and PATCH.
func VMSetPath(vmSet string) string { return PathOverview + "/" + url.PathEscape(vmSet) }

// PortPath is the path of one port: GET and POST.
func PortPath(vmSet string, port int) string { return VMSetPath(vmSet) + "/" + strconv.Itoa(port) }
