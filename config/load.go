package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// fileVariable is the one environment variable that is no setting: it names
// the file, where Sources does not.
const fileVariable = envPrefix + "CONFIG"

// Sources are where values come from besides the defaults; the later field
// counts.
type Sources struct {
	// File is the path of a YAML file; empty for the one that CODEQ_CONFIG names, if any.
	File string
	// Environ has the form of os.Environ; only variables that begin with CODEQ_ count.
	Environ []string
	// Flags are the values of the command line.
	Flags []Flag
}

// Flag is a value that the command line gave.
type Flag struct {
	Setting string // the setting's name
	Value   string // as text, as in the environment
	Origin  string // how errors call it, such as `--data`
}

// Load reads the configuration and checks it. Its error lists everything that
// is wrong, one line each, with the place, the reason and what to do.
func Load(sources Sources) (*Config, error) {
	l := &loader{declared: declared(), config: Default()}
	l.config.origins = make(map[string]string)
	file, variables := sources.File, l.variables(sources.Environ)
	if file == "" {
		file = variables[fileVariable]
	}
	delete(variables, fileVariable)
	if file != "" {
		l.config.file = file
		l.file(file)
	}
	l.environment(variables)
	for _, f := range sources.Flags {
		l.plain(f.Setting, f.Value, f.Origin)
	}
	l.applyFixed()
	if len(l.errs) == 0 {
		if err := l.config.Validate(); err != nil {
			l.errs = append(l.errs, err)
		}
	}
	if err := errors.Join(l.errs...); err != nil {
		return nil, err
	}
	return l.config, nil
}

// loader collects values, and what is wrong with them.
type loader struct {
	declared *declarations
	config   *Config
	errs     []error

	// fixed are values given for fixed settings. They are compared at the end,
	// since some of those follow from other settings.
	fixed []fixedValue
}

type fixedValue struct {
	setting       *setting
	value, origin string
}

func (l *loader) complain(origin, format string, args ...any) {
	l.errs = append(l.errs, fmt.Errorf("%s: %s", origin, fmt.Sprintf(format, args...)))
}

// variables picks ours from the environment.
func (l *loader) variables(environ []string) map[string]string {
	ours := make(map[string]string)
	for _, variable := range environ {
		if name, value, _ := strings.Cut(variable, "="); strings.HasPrefix(name, envPrefix) {
			ours[name] = value
		}
	}
	return ours
}

func (l *loader) environment(variables map[string]string) {
	given := make(map[*setting]string)
	for _, s := range l.declared.all {
		for _, name := range s.names() {
			value, ok := variables[env(name)]
			if !ok {
				continue
			}
			delete(variables, env(name))
			if first := given[s]; first != "" {
				l.complain("environment variable "+env(name), "it means the same as %s; remove one", first)
				continue
			}
			given[s] = env(name)
			l.plain(name, value, "environment variable "+env(name))
		}
	}
	var known []string
	for name := range l.declared.byName {
		known = append(known, env(name))
	}
	unknown := make([]string, 0, len(variables))
	for name := range variables {
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		l.complain("environment variable "+name, "there is no such setting; %s", advice(name, known))
	}
}

// plain takes a value that is given as text.
func (l *loader) plain(name, value, origin string) {
	s := l.declared.find(name)
	if s == nil {
		l.complain(origin, "there is no setting %q; %s", name, l.advice(name))
		return
	}
	if _, ok := s.kind.(fixed); ok {
		l.fixed = append(l.fixed, fixedValue{s, value, origin})
		return
	}
	l.took(s, name, value, origin, s.kind.parse(l.config, value))
}

// took notes where a value came from, or what is wrong with it.
func (l *loader) took(s *setting, name, value, origin string, err error) {
	l.config.origins[s.name] = origin
	if err == nil {
		return
	}
	shown := fmt.Sprintf("%q: ", value)
	if value == "" || s.name == "requirepass" {
		shown = ""
	}
	l.complain(origin, "%s: %s%v; give %s", name, shown, err, s.kind.describe())
}

func (l *loader) applyFixed() {
	for _, f := range l.fixed {
		if err := f.setting.kind.parse(l.config, f.value); err != nil {
			l.complain(f.origin, "%s: %q: %v; remove it", f.setting.name, f.value, err)
		}
	}
}

func (l *loader) advice(name string) string {
	known := make([]string, 0, len(l.declared.byName))
	for k := range l.declared.byName {
		known = append(known, k)
	}
	return advice(name, known)
}

// file reads a YAML file.
func (l *loader) file(path string) {
	source, err := os.ReadFile(path)
	if err != nil {
		l.complain("configuration file", "%v; give the path of a file that the server can read", err)
		return
	}
	tree, err := parser.ParseBytes(source, 0)
	if err != nil {
		var syntax *yaml.SyntaxError
		if errors.As(err, &syntax) {
			position := syntax.Token.Position
			l.complain(fmt.Sprintf("%s:%d:%d", path, position.Line, position.Column), "%s; correct the YAML", syntax.Message)
			return
		}
		l.complain(path, "%v; correct the YAML", err)
		return
	}
	for i, document := range tree.Docs {
		if document.Body == nil {
			continue
		}
		if i > 0 {
			l.complain(place(path, document.Body), "a second document begins here; keep all settings in the first")
			return
		}
		l.document(path, document.Body)
	}
}

func (l *loader) document(path string, body ast.Node) {
	if _, empty := body.(*ast.CommentGroupNode); empty {
		return
	}
	top, ok := body.(ast.MapNode)
	if !ok {
		l.complain(place(path, body), "settings are lines of the form `name: value`; this is %s", nodeWord(body))
		return
	}
	l.pairs(path, "", top, make(map[*setting]string))
}

// pairs takes the settings of the file, or of a section whose settings' names
// begin with prefix. given holds the names that each setting had in the file so far.
func (l *loader) pairs(path, prefix string, settings ast.MapNode, given map[*setting]string) {
	for pairs := settings.MapRange(); pairs.Next(); {
		pair := pairs.KeyValue()
		name, origin := prefix+scalar(pair.Key), place(path, pair.Key)
		if inner, ok := l.declared.sections[name]; ok {
			l.section(path, inner, pair, given)
			continue
		}
		s := l.declared.byName[name]
		if s == nil {
			l.complain(origin, "there is no setting %q; %s", name, l.advice(name))
			continue
		}
		if first := given[s]; first != "" {
			l.complain(origin, "%s means the same as %s, which stands above; remove one", name, first)
			continue
		}
		given[s] = name
		l.node(path, s, name, pair.Value)
	}
}

func (l *loader) section(path, prefix string, pair *ast.MappingValueNode, given map[*setting]string) {
	switch settings := pair.Value.(type) {
	case ast.MapNode:
		l.pairs(path, prefix, settings, given)
	case *ast.NullNode: // a section in which everything is commented out
	default:
		l.complain(place(path, pair.Value), "%s: this is %s; give settings under it", scalar(pair.Key), nodeWord(settings))
	}
}

// node takes one setting of a file.
func (l *loader) node(path string, s *setting, name string, value ast.Node) {
	origin := place(path, value)
	switch node := value.(type) {
	case *ast.SequenceNode:
		if k, ok := s.kind.(sequence); ok {
			k.clear(l.config)
			l.config.origins[s.name] = origin
			for _, item := range node.Values {
				l.item(path, s, name, item, func(text string) error { return k.add(l.config, text) })
			}
			return
		}
	case ast.MapNode:
		if k, ok := s.kind.(mapping); ok {
			k.clear(l.config)
			l.config.origins[s.name] = origin
			for pairs := node.MapRange(); pairs.Next(); {
				entry := pairs.KeyValue()
				l.item(path, s, name, entry.Value, func(text string) error { return k.put(l.config, scalar(entry.Key), text) })
			}
			return
		}
	default:
		if isScalar(node) {
			l.plain(name, scalar(node), origin)
			return
		}
	}
	l.complain(origin, "%s: this is %s; give %s", name, nodeWord(value), s.kind.describe())
}

// item takes one value within a setting.
func (l *loader) item(path string, s *setting, name string, node ast.Node, take func(string) error) {
	if !isScalar(node) {
		l.complain(place(path, node), "%s: this is %s; give %s", name, nodeWord(node), s.kind.describe())
		return
	}
	if err := take(scalar(node)); err != nil {
		l.complain(place(path, node), "%s: %v; give %s", name, err, s.kind.describe())
	}
}

func place(path string, node ast.Node) string {
	position := node.GetToken().Position
	return fmt.Sprintf("%s:%d:%d", path, position.Line, position.Column)
}

// isScalar says whether a node is a plain value. Anchors, aliases and tags are
// not: a configuration is to be read as it stands.
func isScalar(node ast.Node) bool {
	switch node.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.LiteralNode:
		return true
	}
	return false
}

// scalar is a plain value's text as it stands in the file, without quotes.
// Nothing at all is the empty text, since `unixsocket:` means none.
func scalar(node ast.Node) string {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return strings.TrimSuffix(n.Value.Value, "\n")
	case *ast.NullNode:
		return ""
	}
	return node.GetToken().Value
}

func nodeWord(node ast.Node) string {
	switch node.(type) {
	case *ast.SequenceNode:
		return "a sequence"
	case ast.MapNode:
		return "a mapping"
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		return "an anchor, alias or tag"
	}
	return "a plain value"
}
