package input

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/haproxytech/config-parser/v5/common"
	"github.com/haproxytech/config-parser/v5/params"
	nginxconfig "github.com/tufanbarisyildirim/gonginx/config"
	nginxparser "github.com/tufanbarisyildirim/gonginx/parser"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/cmd/chash/internal/mapping"
)

// nginx reads the server directives of an upstream. A server that is down is unhealthy,
// and a backup server is left out: nginx sends it no keys as long as another answers.
func (s *source) nginx() (result *List, err error) {
	// The parser is not made for hostile texts.
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, s.failf(0, "expected a configuration of nginx: %v", p)
		}
	}()
	parsed, err := nginxparser.NewStringParser(string(s.data), nginxparser.WithSkipValidDirectivesErr()).Parse()
	if err != nil {
		return nil, s.failf(lineIn(err), "expected a configuration of nginx: %v", err)
	}
	var found []*nginxconfig.Upstream
	var names []string
	for _, directive := range parsed.FindDirectives("upstream") {
		upstream, ok := directive.(*nginxconfig.Upstream)
		if !ok {
			continue
		}
		names = append(names, upstream.UpstreamName)
		if s.pool == "" || s.pool == upstream.UpstreamName {
			found = append(found, upstream)
		}
	}
	if err := s.one("upstream", names, len(found)); err != nil {
		return nil, err
	}
	l := s.lister()
	for _, server := range found[0].UpstreamServers {
		if slices.Contains(server.Flags, "backup") {
			continue
		}
		line := server.Line
		b := mapping.Backend{Name: server.Address}
		if weight, has := server.Parameters["weight"]; has {
			if b.Weight, err = s.weight(line, weight); err != nil {
				return nil, err
			}
		}
		if slices.Contains(server.Flags, "down") {
			b.State = chash.Unhealthy
		}
		if err := l.add(line, b); err != nil {
			return nil, err
		}
	}
	return &List{Backends: l.backends, Pool: found[0].UpstreamName}, nil
}

var lineNumber = regexp.MustCompile(`\bline[: ]+(\d+)`)

// lineIn returns the line that an error's text names, or 0.
func lineIn(err error) int {
	if match := lineNumber.FindStringSubmatch(err.Error()); match != nil {
		if line, err := strconv.Atoi(match[1]); err == nil {
			return line
		}
	}
	return 0
}

// one returns an error unless one pool is meant.
func (s *source) one(what string, names []string, found int) error {
	switch {
	case len(names) == 0:
		return s.failf(0, "expected a section %q, found none", what)
	case found == 0:
		return s.failf(0, "%s %q; expected one of %s", what, s.pool, quoted(names))
	case found > 1:
		return s.failf(0, "expected one %s, found %s: say which by --pool", what, quoted(names))
	}
	return nil
}

// haproxySections are the words that begin a section.
var haproxySections = []string{
	"global", "defaults", "frontend", "backend", "listen", "peers", "resolvers", "mailers", "userlist",
	"http-errors", "cache", "program", "fcgi-app", "ring", "log-forward", "crt-store", "traces", "log-profile",
}

// haproxy reads the server lines of a backend or listen section. A line is split into
// words, and its options are read, by the parser of HAProxy Technologies. That library's
// reading of whole files has no line numbers and leaves out what it cannot read.
func (s *source) haproxy() (result *List, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, s.failf(0, "expected a configuration of HAProxy: %v", p)
		}
	}()
	type section struct {
		name string
		*lister
		servers int
	}
	var sections []*section
	var now *section
	line := 0
	for text := range bytes.Lines(s.data) {
		line++
		words, _ := common.StringSplitWithCommentIgnoreEmpty(strings.TrimRight(string(text), "\r\n"))
		if len(words) == 0 {
			continue
		}
		if slices.Contains(haproxySections, words[0]) {
			now = nil
			if words[0] != "backend" && words[0] != "listen" {
				continue
			}
			if len(words) < 2 {
				return nil, s.failf(line, "expected %s NAME", words[0])
			}
			now = &section{name: words[1], lister: s.lister()}
			sections = append(sections, now)
			continue
		}
		if now == nil || words[0] != "server" {
			continue
		}
		if len(words) < 3 {
			return nil, s.failf(line, "expected server NAME ADDRESS")
		}
		now.servers++
		b, backup, err := s.server(line, now.servers, words)
		if err != nil {
			return nil, err
		}
		if backup {
			continue
		}
		if err := now.add(line, b); err != nil {
			return nil, err
		}
	}
	var found []*section
	var names []string
	for _, section := range sections {
		if section.servers == 0 && s.pool == "" {
			continue
		}
		names = append(names, section.name)
		if s.pool == "" || s.pool == section.name {
			found = append(found, section)
		}
	}
	if err := s.one("backend", names, len(found)); err != nil {
		return nil, err
	}
	return &List{Backends: found[0].backends, Pool: found[0].name}, nil
}

// server returns the backend of a server line, which is the given one of its section, and
// reports whether it is a backup.
func (s *source) server(line, number int, words []string) (b mapping.Backend, backup bool, err error) {
	b = mapping.Backend{Name: words[1], ID: strconv.Itoa(number)}
	for _, option := range params.ParseServerOptions(words[3:]) {
		switch o := option.(type) {
		case *params.ServerOptionWord:
			switch o.Name {
			case "disabled":
				b.State = chash.Unhealthy
			case "backup":
				backup = true
			}
		case *params.ServerOptionValue:
			switch {
			case o.Name == "id":
				b.ID = o.Value
			case o.Name == "weight" && o.Value == "0":
				b.State = chash.Draining // it gets no key that is not pinned to it
			case o.Name == "weight":
				if b.Weight, err = s.weight(line, o.Value); err == nil && b.Weight > 256 {
					err = s.failf(line, "weight %s; expected a whole number from 0 to 256", o.Value)
				}
			}
		}
		if err != nil {
			return b, false, err
		}
	}
	return b, backup, nil
}
