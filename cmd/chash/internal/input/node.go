package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// A node is a value of JSON or YAML with the line on which it stands.
type node struct {
	line   int
	kind   kind
	text   string // of a scalar
	names  []string
	values []*node // of a list, or by name
}

type kind string

const (
	scalar  kind = "a value"
	list    kind = "a list"
	mapOf   kind = "a mapping"
	nothing kind = "nothing"
)

// get returns the value of a name, or nil.
func (n *node) get(path ...string) *node {
	for _, name := range path {
		var found *node
		if n != nil && n.kind == mapOf {
			for i := range n.names {
				if n.names[i] == name {
					found = n.values[i]
				}
			}
		}
		n = found
	}
	return n
}

// maxDepth is how deep values may be nested.
const maxDepth = 100

var errDepth = fmt.Errorf("expected at most %d levels", maxDepth)

// parseJSON returns the tree of a JSON text.
func (s *source) parseJSON() (*node, error) {
	decoder := json.NewDecoder(bytes.NewReader(s.data))
	decoder.UseNumber()
	p := jsonParser{decoder: decoder, data: s.data, line: 1}
	root, err := p.value(0)
	if err == nil {
		if _, more := decoder.Token(); more != io.EOF {
			err = errors.New("expected the end of the text")
		}
	}
	if err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = errors.New("the text ends too early")
		}
		return nil, s.failf(p.lineNow(), "expected JSON: %v", err)
	}
	return root, nil
}

// A jsonParser builds the tree, and counts lines as it goes.
type jsonParser struct {
	decoder *json.Decoder
	data    []byte
	line    int
	counted int64
}

func (p *jsonParser) lineNow() int {
	at := min(p.decoder.InputOffset(), int64(len(p.data)))
	p.line += bytes.Count(p.data[p.counted:at], []byte{'\n'})
	p.counted = at
	return p.line
}

func (p *jsonParser) value(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	token, err := p.decoder.Token()
	if err != nil {
		return nil, err
	}
	n := &node{line: p.lineNow(), kind: scalar}
	switch t := token.(type) {
	case json.Delim:
		n.kind = list
		if t == '{' {
			n.kind = mapOf
		}
		for p.decoder.More() {
			if n.kind == mapOf {
				name, err := p.decoder.Token()
				if err != nil {
					return nil, err
				}
				n.names = append(n.names, name.(string))
			}
			value, err := p.value(depth + 1)
			if err != nil {
				return nil, err
			}
			n.values = append(n.values, value)
		}
		_, err := p.decoder.Token() // the end
		return n, err
	case nil:
		n.kind = nothing
	default:
		n.text = fmt.Sprint(t)
	}
	return n, nil
}

// parseYAML returns the tree of a YAML text, of its first document that has something.
func (s *source) parseYAML() (root *node, err error) {
	// The parser is not made for hostile texts.
	defer func() {
		if p := recover(); p != nil {
			root, err = nil, s.failf(0, "expected YAML: %v", p)
		}
	}()
	if line := s.tooDeep(); line > 0 {
		return nil, s.failf(line, "%v", errDepth)
	}
	file, err := parser.ParseBytes(s.data, 0)
	if err != nil {
		var positioned yaml.Error
		if errors.As(err, &positioned) && positioned.GetToken() != nil {
			return nil, s.failf(positioned.GetToken().Position.Line, "expected YAML: %s", positioned.GetMessage())
		}
		return nil, s.failf(0, "expected YAML: %v", err)
	}
	for _, document := range file.Docs {
		if document.Body == nil {
			continue
		}
		if _, comment := document.Body.(*ast.CommentGroupNode); comment {
			continue
		}
		p := yamlParser{source: s, anchors: map[string]*node{}}
		return p.value(document.Body, 0)
	}
	return &node{kind: nothing}, nil
}

// tooDeep returns the first line that opens more brackets than may be nested, or 0: the
// parser calls itself for each.
func (s *source) tooDeep() int {
	depth, line := 0, 1
	for _, c := range s.data {
		switch c {
		case '\n':
			line++
		case '[', '{':
			if depth++; depth > maxDepth*10 {
				return line
			}
		case ']', '}':
			depth = max(0, depth-1)
		}
	}
	return 0
}

// A yamlParser turns the nodes of the library into ours.
type yamlParser struct {
	*source
	anchors map[string]*node
}

func (p *yamlParser) value(from ast.Node, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, p.failf(from.GetToken().Position.Line, "%v", errDepth)
	}
	line := 0
	if t := from.GetToken(); t != nil && t.Position != nil {
		line = t.Position.Line
	}
	n := &node{line: line, kind: scalar}
	switch f := from.(type) {
	case *ast.AnchorNode:
		value, err := p.value(f.Value, depth+1)
		if err == nil {
			p.anchors[f.Name.String()] = value
		}
		return value, err
	case *ast.AliasNode:
		value, found := p.anchors[f.Value.String()]
		if !found {
			return nil, p.failf(line, "the alias *%s; expected one that an anchor before it names", f.Value)
		}
		return value, nil
	case *ast.TagNode:
		return p.value(f.Value, depth+1)
	case *ast.MappingNode:
		n.kind = mapOf
		return n, p.fields(n, f.Values, depth)
	case *ast.MappingValueNode:
		n.kind = mapOf
		return n, p.fields(n, []*ast.MappingValueNode{f}, depth)
	case *ast.SequenceNode:
		n.kind = list
		for _, v := range f.Values {
			value, err := p.value(v, depth+1)
			if err != nil {
				return nil, err
			}
			n.values = append(n.values, value)
		}
	case *ast.NullNode:
		n.kind = nothing
	case *ast.StringNode:
		n.text = f.Value
	case *ast.LiteralNode:
		n.text = f.Value.Value
	default:
		n.text = from.GetToken().Value
	}
	return n, nil
}

// fields adds the fields of a mapping, those that << merges first so that its own count.
func (p *yamlParser) fields(n *node, values []*ast.MappingValueNode, depth int) error {
	for _, v := range values {
		value, err := p.value(v.Value, depth+1)
		if err != nil {
			return err
		}
		if v.Key.IsMergeKey() {
			n.names = append(append([]string{}, value.names...), n.names...)
			n.values = append(append([]*node{}, value.values...), n.values...)
			continue
		}
		n.names = append(n.names, strings.Trim(v.Key.String(), `"'`))
		n.values = append(n.values, value)
	}
	return nil
}
