package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// maxBody is the largest request body, in bytes; the largest sensible one is a PATCH of a thousand ports, some 50 KiB.
const maxBody = 64 << 10

// decode reads a JSON object of a request's body, and returns it with the body as it was sent, compacted. Anything that
// is valid JSON and no object is an empty one, so that each route complains in its own words.
func decode(w http.ResponseWriter, r *http.Request) (object map[string]json.RawMessage, data []byte, err error) {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) || !isJSON(mediaType) {
		return nil, nil, errMediaType()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, nil, errTooLarge()
	}
	if err != nil {
		return nil, nil, errNoJSON(err)
	}
	var compact bytes.Buffer
	if !utf8.Valid(body) {
		return nil, nil, errNoJSON(errors.New("the body is not UTF-8"))
	}
	if err := json.Compact(&compact, body); err != nil {
		return nil, nil, errNoJSON(err)
	}
	if err := json.Unmarshal(body, &object); err != nil {
		object = nil // valid JSON, no object
	}
	return object, compact.Bytes(), nil
}

// isJSON accepts what the replaced service accepted.
func isJSON(mediaType string) bool {
	return mediaType == "application/json" || strings.HasPrefix(mediaType, "application/") && strings.HasSuffix(mediaType, "+json")
}

// value reads a member of an object strictly: it must be there, of T's type, and not null.
func value[T any](object map[string]json.RawMessage, key string) (T, bool) {
	var v *T
	raw, ok := object[key]
	if !ok || json.Unmarshal(raw, &v) != nil || v == nil {
		return *new(T), false
	}
	return *v, true
}

func decodeSide(w http.ResponseWriter, r *http.Request) (cable.Change, error) {
	object, data, err := decode(w, r)
	if err != nil {
		return cable.Change{}, err
	}
	side, _ := value[string](object, "active_side")
	switch side {
	case api.Toggle:
		return cable.Change{Move: cable.MoveToggle}, nil
	case api.Random:
		return cable.Change{Move: cable.MoveRandom}, nil
	}
	to, err := cable.ParseSide(side)
	if err != nil {
		return cable.Change{}, errPosted(r, data, `Bad posted data, expected: {"active_side": "upper_tor|lower_tor|toggle|random"}`)
	}
	return cable.Change{Move: cable.MoveTo, Side: to}, nil
}

func decodeOutSides(w http.ResponseWriter, r *http.Request, action string) (cable.Change, error) {
	object, data, err := decode(w, r)
	if err != nil {
		return cable.Change{}, err
	}
	names, ok := value[[]any](object, "out_sides")
	roles, err := parseRoles(names)
	if !ok || err != nil {
		return cable.Change{}, errPosted(r, data, fmt.Sprintf(`Invalid posted data: %s, expected: {"out_sides": ["nic|upper_tor|lower_tor", ...]}`, short(string(data), maxEcho)))
	}
	if action == "drop" {
		return cable.Change{Drop: roles}, nil
	}
	return cable.Change{Output: roles}, nil
}

func parseRoles[T any](names []T) (cable.Roles, error) {
	var roles cable.Roles
	for _, name := range names {
		text, ok := any(name).(string)
		if !ok {
			return 0, fmt.Errorf("%v is not a string", name)
		}
		role, err := cable.ParseRole(text)
		if err != nil {
			return 0, err
		}
		roles |= cable.RolesOf(role)
	}
	return roles, nil
}

var portsToClear = regexp.MustCompile(`^[0-9]+(\|[0-9]+)*$`)

// decodeClear returns the ports to clear, nil for all.
func decodeClear(w http.ResponseWriter, r *http.Request) ([]string, error) {
	object, data, err := decode(w, r)
	if err != nil {
		return nil, err
	}
	ports, _ := value[string](object, "port_to_clear")
	if ports == "all" {
		return nil, nil
	}
	if !portsToClear.MatchString(ports) {
		return nil, errPosted(r, data, fmt.Sprintf(`Invalid posted data: %s, expected: {"port_to_clear": "0|1|2..."} or {"port_to_clear": "all"}`, short(string(data), maxEcho)))
	}
	list := strings.Split(ports, "|")
	slices.Sort(list)
	return slices.Compact(list), nil
}

// decodeLog returns the message, which may be any JSON.
func decodeLog(w http.ResponseWriter, r *http.Request) (string, error) {
	object, data, err := decode(w, r)
	if err != nil {
		return "", err
	}
	raw, ok := object["message"]
	if !ok {
		return "", errPosted(r, data, `Expect key "message" in posted json`)
	}
	if text, ok := value[string](object, "message"); ok {
		return text, nil
	}
	return string(raw), nil
}

// decodePatch returns the change of each port. Unlike the older routes it refuses what it does not know, since a
// misspelt key would otherwise be a wish that is silently not granted.
func decodePatch(w http.ResponseWriter, r *http.Request) (map[int]cable.Change, error) {
	object, data, err := decode(w, r)
	if err != nil {
		return nil, err
	}
	bad := func(format string, args ...any) error {
		return errPosted(r, data, fmt.Sprintf(format, args...)+
			`, expected: {"ports": {"<port_index>": {"active_side": "upper_tor|lower_tor", "dropped": ["nic|upper_tor|lower_tor", ...]}}}`)
	}
	if key, twice := repeatedKey(json.NewDecoder(bytes.NewReader(data))); twice {
		return nil, bad("Bad patch: %q is there twice", key)
	}
	ports, ok := value[map[string]map[string]json.RawMessage](object, "ports")
	if !ok {
		return nil, bad("Bad patch: no ports")
	}
	if key, ok := unknownKey(object, "ports"); ok {
		return nil, bad("Bad patch: unknown field %q", key)
	}
	changes := map[int]cable.Change{}
	for port, want := range ports {
		index, err := strconv.Atoi(port)
		if err != nil || index < 0 || strconv.Itoa(index) != port {
			return nil, bad("Bad patch: %q is not a port index", port)
		}
		if want == nil {
			return nil, bad("Bad patch: port %s is null", port)
		}
		if key, ok := unknownKey(want, "active_side", "dropped"); ok {
			return nil, bad("Bad patch: port %s: unknown field %q", port, key)
		}
		var change cable.Change
		if _, ok := want["active_side"]; ok {
			side, _ := value[string](want, "active_side")
			change.Move = cable.MoveTo
			if change.Side, err = cable.ParseSide(side); err != nil {
				return nil, bad("Bad patch: port %s: %v", port, err)
			}
		}
		if _, ok := want["dropped"]; ok {
			names, ok := value[[]string](want, "dropped")
			dropped, err := parseRoles(names)
			if !ok || err != nil {
				return nil, bad("Bad patch: port %s: dropped: %v", port, cmp.Or(err, errNoList))
			}
			change.SetDropped = &dropped
		}
		changes[index] = change
	}
	return changes, nil
}

var errNoList = errors.New("it is not a list of strings")

// unknownKey returns a key of an object that is not one of the known ones, in their exact case. ok is false when there is none.
func unknownKey(object map[string]json.RawMessage, known ...string) (key string, ok bool) {
	for key := range object {
		if !slices.Contains(known, key) {
			return key, true
		}
	}
	return "", false
}

// repeatedKey reads a value, and returns a key that one of its objects has twice, of which encoding/json takes the last.
func repeatedKey(value *json.Decoder) (key string, ok bool) {
	start, err := value.Token()
	if err != nil || start != json.Delim('{') && start != json.Delim('[') {
		return "", false
	}
	seen := map[string]bool{}
	for value.More() {
		if start == json.Delim('{') {
			token, err := value.Token()
			key, isKey := token.(string)
			if err != nil || !isKey {
				return "", false
			}
			if seen[key] {
				return key, true
			}
			seen[key] = true
		}
		if key, ok := repeatedKey(value); ok {
			return key, true
		}
	}
	_, _ = value.Token() // the end, which was seen to be there when the body was read
	return "", false
}

// toASCII escapes what is not ASCII in valid JSON.
func toASCII(b []byte) []byte {
	if !slices.ContainsFunc(b, func(c byte) bool { return c >= 0x7f }) {
		return b
	}
	out := make([]byte, 0, len(b)+16)
	for _, r := range string(b) {
		switch {
		case r < 0x7f:
			out = append(out, byte(r))
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// mergeSlashes returns where a URL with empty path segments should go, "" when it has none.
func mergeSlashes(u *url.URL) string {
	path := u.EscapedPath()
	if !strings.Contains(path, "//") {
		return ""
	}
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	return path
}
