package config

import (
	"fmt"
	"path"
	"strings"
	"sync"
	"sync/atomic"
)

// Redis' errors of CONFIG SET, without the code ERR that the reply begins with.
const (
	formatUnknown = "Unknown option or number of arguments for CONFIG SET - '%s'"
	formatFailed  = "CONFIG SET failed (possibly related to argument '%s') - %v"
	errImmutable  = redisError("can't set immutable config")
	errDuplicate  = redisError("duplicate parameter")
)

func failed(name string, reason error) error {
	return redisError(fmt.Sprintf(formatFailed, name, reason))
}

// Pair is a setting's name and value, as CONFIG GET and CONFIG SET have them.
type Pair struct {
	Name, Value string
}

// Store publishes the configuration of a running server. Current may be called
// from anywhere at any time; it takes no lock.
type Store struct {
	declared *declarations
	current  atomic.Pointer[Config]

	mu       sync.Mutex // held while a change is made and announced
	onChange []func(before, after *Config)
}

// NewStore starts with c.
func NewStore(c *Config) *Store {
	s := &Store{declared: declared()}
	s.current.Store(c)
	return s
}

// Current is the configuration now. It is immutable; whoever needs several
// values that fit together takes them from one.
func (s *Store) Current() *Config { return s.current.Load() }

// OnChange registers what to do after a CONFIG SET, for those who cannot just
// ask Current when they need a value. The callbacks run one after the other, in the
// order of their registration, on the goroutine of the CONFIG SET and before it
// is answered; they must not call Set or OnChange.
func (s *Store) OnChange(changed func(before, after *Config)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onChange = append(s.onChange, changed)
}

// Get lists the settings whose names match any of the glob patterns, in any
// case, each once, in the order of the reference. Like Redis, it spells a name that was asked
// for in full as it was asked for.
func (s *Store) Get(patterns ...string) []Pair {
	c := s.Current()
	var found []Pair
	for _, setting := range s.declared.all {
		for _, name := range setting.names() {
			if spelled, ok := matchAny(name, patterns); ok {
				found = append(found, Pair{spelled, setting.kind.format(c)})
			}
		}
	}
	return found
}

func matchAny(name string, patterns []string) (spelled string, ok bool) {
	for _, pattern := range patterns {
		if strings.EqualFold(pattern, name) {
			return pattern, true
		}
		// A malformed pattern matches nothing.
		if ok, _ := path.Match(strings.ToLower(pattern), name); ok {
			return name, true
		}
	}
	return "", false
}

// Set changes all of the pairs or, with an error, none. The error's text is
// Redis' reply without the code ERR; like Redis, Set looks at all names first
// and at the values then, and reports the first fault.
func (s *Store) Set(pairs ...Pair) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	settings, err := s.changeable(pairs)
	if err != nil {
		return err
	}
	before := s.Current()
	after := new(Config)
	*after = *before
	for i, pair := range pairs {
		if err := settings[i].kind.parse(after, pair.Value); err != nil {
			return failed(strings.ToLower(pair.Name), err)
		}
	}
	s.current.Store(after)
	for _, changed := range s.onChange {
		changed(before, after)
	}
	return nil
}

func (s *Store) changeable(pairs []Pair) ([]*setting, error) {
	settings := make([]*setting, 0, len(pairs))
	seen := make(map[string]bool, len(pairs))
	for _, pair := range pairs {
		name := strings.ToLower(pair.Name)
		setting := s.declared.byName[name]
		switch {
		case setting == nil:
			return nil, redisError(fmt.Sprintf(formatUnknown, pair.Name))
		case !setting.mutable:
			return nil, failed(pair.Name, errImmutable)
		case seen[name]:
			return nil, failed(pair.Name, errDuplicate)
		}
		seen[name] = true
		settings = append(settings, setting)
	}
	return settings, nil
}
