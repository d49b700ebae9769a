package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// redisError is an error with a text of Redis, byte for byte.
type redisError string

func (e redisError) Error() string { return string(e) }

// Redis' reasons for refusing a value.
const (
	errEventClass  = redisError("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")
	errNotInteger  = redisError("argument couldn't be parsed into an integer")
	errNotMemory   = redisError("argument must be a memory value")
	errNotOctal    = redisError("argument couldn't be parsed as an octal number")
	errNotBoolean  = redisError("argument must be 'yes' or 'no'")
	errPercentiles = redisError("Invalid latency-tracking-info-percentiles parameters")
	errPercentile  = redisError("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]")
	errLimitFields = redisError("Wrong number of arguments in buffer limit configuration.")
	errLimitClass  = redisError("Invalid client class specified in buffer limit configuration.")
	errLimitValue  = redisError("Error in hard, soft or soft_seconds setting in buffer limit configuration.")

	formatRange      = "argument must be between %d and %d inclusive"
	formatOctalRange = "argument must be between %o and %o inclusive"
	formatEnum       = "argument(s) must be one of the following: %s"
)

// kind is how a setting's text becomes its field in a Config, and back.
type kind interface {
	// parse reads the text that the environment, the command line, CONFIG SET and the
	// file's plain values have in common. On an error c may be half changed.
	parse(c *Config, text string) error
	// format writes the value as CONFIG GET shows it, in a form that parse reads.
	format(c *Config) string
	// describe names the possible values, for people.
	describe() string
}

// sequence is a kind that the file may also give as a YAML sequence.
type sequence interface {
	kind
	clear(c *Config)
	add(c *Config, item string) error
}

// mapping is a kind that the file may also give as a YAML mapping.
type mapping interface {
	kind
	clear(c *Config)
	put(c *Config, key, value string) error
}

// integer is a whole number.
type integer struct {
	field    func(*Config) *int
	min, max int
}

func (k integer) parse(c *Config, text string) error {
	n, err := parseInteger(text, int64(k.min), int64(k.max))
	*k.field(c) = int(n)
	return err
}

func (k integer) format(c *Config) string { return strconv.Itoa(*k.field(c)) }

func (k integer) describe() string { return fmt.Sprintf("an integer from %d to %d", k.min, k.max) }

// duration is a whole number of units.
type duration struct {
	field    func(*Config) *time.Duration
	unit     time.Duration
	min, max int64 // in units
}

func (k duration) parse(c *Config, text string) error {
	n, err := parseInteger(text, k.min, k.max)
	*k.field(c) = time.Duration(n) * k.unit
	return err
}

func (k duration) format(c *Config) string { return strconv.FormatInt(int64(*k.field(c)/k.unit), 10) }

func (k duration) describe() string {
	unit := "seconds"
	switch k.unit {
	case time.Millisecond:
		unit = "milliseconds"
	case time.Microsecond:
		unit = "microseconds"
	}
	return fmt.Sprintf("%s, from %d to %d", unit, k.min, k.max)
}

// memory is a number of bytes, with Redis' units.
type memory struct {
	field    func(*Config) *int64
	min, max int64
}

func (k memory) parse(c *Config, text string) error {
	n, err := parseMemory(text)
	if err == nil {
		err = checkRange(n, k.min, k.max)
	}
	*k.field(c) = n
	return err
}

func (k memory) format(c *Config) string { return strconv.FormatInt(*k.field(c), 10) }

func (k memory) describe() string {
	if k.max == math.MaxInt64 {
		return "a memory size such as 64mb, at least " + memoryText(k.min)
	}
	return fmt.Sprintf("a memory size such as 64mb, from %s to %s", memoryText(k.min), memoryText(k.max))
}

// octal is a file mode.
type octal struct {
	field func(*Config) *fs.FileMode
	max   fs.FileMode
}

func (k octal) parse(c *Config, text string) error {
	n, err := strconv.ParseUint(text, 8, 32)
	if errors.Is(err, strconv.ErrRange) || err == nil && n > uint64(k.max) {
		return fmt.Errorf(formatOctalRange, 0, k.max)
	}
	if err != nil {
		return errNotOctal
	}
	*k.field(c) = fs.FileMode(n)
	return nil
}

func (k octal) format(c *Config) string { return strconv.FormatUint(uint64(*k.field(c)), 8) }

func (k octal) describe() string { return fmt.Sprintf("an octal number from 0 to %o", k.max) }

// boolean is yes or no, in any case.
type boolean struct {
	field func(*Config) *bool
}

func (k boolean) parse(c *Config, text string) error {
	yes := strings.EqualFold(text, "yes")
	if !yes && !strings.EqualFold(text, "no") {
		return errNotBoolean
	}
	*k.field(c) = yes
	return nil
}

func (k boolean) format(c *Config) string {
	if *k.field(c) {
		return "yes"
	}
	return "no"
}

func (k boolean) describe() string { return "yes or no" }

// maxPercentiles bounds what one line of INFO has to show.
const maxPercentiles = 100

// percentiles is a list of numbers from 0 to 100, with spaces between them.
type percentiles struct {
	field func(*Config) *[]float64
}

func (k percentiles) parse(c *Config, text string) error {
	var all []float64
	for _, word := range strings.Fields(text) {
		p, err := strconv.ParseFloat(word, 64)
		switch {
		case err != nil || len(all) == maxPercentiles:
			return errPercentiles
		case !(p >= 0 && p <= 100):
			return errPercentile
		}
		all = append(all, p)
	}
	*k.field(c) = all
	return nil
}

func (k percentiles) format(c *Config) string {
	words := make([]string, len(*k.field(c)))
	for i, p := range *k.field(c) {
		words[i] = strconv.FormatFloat(p, 'g', -1, 64)
	}
	return strings.Join(words, " ")
}

func (k percentiles) describe() string {
	return "up to 100 numbers from 0 to 100, with spaces between them"
}

// KeyspaceEvents are the classes of keyspace events that are wanted, as Redis' letters, each at most once.
type KeyspaceEvents string

// Redis' letters. The first are those that A stands for.
const (
	allEvents       = "g$lshzxetd"
	keyspaceLetters = allEvents + "nKEm"
)

// Has tells whether the class of the letter is wanted, be it by A.
func (e KeyspaceEvents) Has(letter byte) bool {
	return strings.IndexByte(string(e), letter) >= 0 || strings.IndexByte(allEvents, letter) >= 0 && strings.HasPrefix(string(e), "A")
}

// keyspaceEvents are the classes of notify-keyspace-events, in Redis' own order.
type keyspaceEvents struct {
	field func(*Config) *KeyspaceEvents
}

func (k keyspaceEvents) parse(c *Config, text string) error {
	if strings.Trim(text, "A"+keyspaceLetters) != "" {
		return errEventClass
	}
	given := strings.ReplaceAll(text, "A", allEvents)
	var events []byte
	for _, letter := range []byte(keyspaceLetters) {
		if strings.IndexByte(given, letter) >= 0 {
			events = append(events, letter)
		}
	}
	*k.field(c) = KeyspaceEvents(strings.Replace(string(events), allEvents, "A", 1))
	return nil
}

func (k keyspaceEvents) format(c *Config) string { return string(*k.field(c)) }

func (k keyspaceEvents) describe() string {
	return "letters of Ag$lshzxeKEtmdn, or empty"
}

// enum is one of a few words, in any case.
type enum[T ~string] struct {
	field  func(*Config) *T
	values []T // in the order in which Redis lists them
}

func (k enum[T]) parse(c *Config, text string) error {
	for _, v := range k.values {
		if strings.EqualFold(text, string(v)) {
			*k.field(c) = v
			return nil
		}
	}
	return fmt.Errorf(formatEnum, k.list())
}

func (k enum[T]) format(c *Config) string { return string(*k.field(c)) }

func (k enum[T]) describe() string { return "one of " + k.list() }

func (k enum[T]) list() string {
	words := make([]string, len(k.values))
	for i, v := range k.values {
		words[i] = string(v)
	}
	return strings.Join(words, ", ")
}

// text is any text that check, where there is one, accepts.
type text struct {
	field func(*Config) *string
	what  string
	check func(string) error
}

func (k text) parse(c *Config, text string) error {
	*k.field(c) = text
	if k.check == nil {
		return nil
	}
	return k.check(text)
}

func (k text) format(c *Config) string { return *k.field(c) }

func (k text) describe() string { return k.what }

// list is a sequence of words; as text, with spaces between them.
type list struct {
	field func(*Config) *[]string
	what  string
	check func(item string) error // nil: any word
}

func (k list) clear(c *Config) { *k.field(c) = nil }

func (k list) add(c *Config, item string) error {
	switch {
	case item == "" || strings.ContainsAny(item, " \t\r\n"):
		return fmt.Errorf("the item %q is empty or has a space in it", item)
	case slices.Contains(*k.field(c), item):
		return fmt.Errorf("the item %q stands there twice", item)
	case k.check != nil:
		if err := k.check(item); err != nil {
			return err
		}
	}
	*k.field(c) = append(*k.field(c), item)
	return nil
}

func (k list) parse(c *Config, text string) error {
	k.clear(c)
	for _, item := range strings.Fields(text) {
		if err := k.add(c, item); err != nil {
			return err
		}
	}
	return nil
}

func (k list) format(c *Config) string { return strings.Join(*k.field(c), " ") }

func (k list) describe() string { return "a list of " + k.what }

// table maps keys to words; as text, key=word with spaces between the pairs.
// A key with a space in it can be given in the file only.
type table[K cmp.Ordered] struct {
	field func(*Config) *map[K]string
	what  string
	key   func(string) (K, error)
}

func (k table[K]) clear(c *Config) { *k.field(c) = nil }

func (k table[K]) put(c *Config, keyText, value string) error {
	key, err := k.key(keyText)
	if err != nil {
		return err
	}
	m := *k.field(c)
	if m == nil {
		m = make(map[K]string)
		*k.field(c) = m
	}
	if _, twice := m[key]; twice {
		return fmt.Errorf("the key %q stands there twice", keyText)
	}
	if value == "" {
		return fmt.Errorf("the key %q has no value", keyText)
	}
	m[key] = value
	return nil
}

func (k table[K]) parse(c *Config, text string) error {
	k.clear(c)
	for _, pair := range strings.Fields(text) {
		// The last equals sign counts: a tenant may have one, a shard may not.
		i := strings.LastIndexByte(pair, '=')
		if i < 0 {
			return fmt.Errorf("%q is no pair of key and value with = between them", pair)
		}
		if err := k.put(c, pair[:i], pair[i+1:]); err != nil {
			return err
		}
	}
	return nil
}

func (k table[K]) format(c *Config) string {
	m := *k.field(c)
	pairs := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, fmt.Sprintf("%v=%s", key, m[key]))
	}
	return strings.Join(pairs, " ")
}

func (k table[K]) describe() string { return "a mapping of " + k.what }

// fixed is what codeq does and cannot do otherwise. Its own value may be set,
// since clients that insist on a value do that; any other is refused.
type fixed struct {
	value func(*Config) string
	why   string
}

func (k fixed) parse(c *Config, text string) error {
	if strings.EqualFold(text, k.value(c)) {
		return nil
	}
	return fmt.Errorf("it is always %q here: %s", k.value(c), k.why)
}

func (k fixed) format(c *Config) string { return k.value(c) }

func (k fixed) describe() string { return "its value only" }

// outputLimits is Redis' `class hard soft seconds`, repeated; a class that is
// not named keeps its limit.
type outputLimits struct {
	field func(*Config) *OutputLimits
}

func (k outputLimits) parse(c *Config, text string) error {
	words := strings.Fields(text)
	if len(words)%4 != 0 {
		return errLimitFields
	}
	next := *k.field(c)
	for ; len(words) > 0; words = words[4:] {
		limit := next.class(strings.ToLower(words[0]))
		if limit == nil {
			return errLimitClass
		}
		hard, errHard := parseMemory(words[1])
		soft, errSoft := parseMemory(words[2])
		seconds, errSeconds := parseInteger(words[3], 0, maxSeconds)
		if errors.Join(errHard, errSoft, errSeconds) != nil {
			return errLimitValue
		}
		*limit = OutputLimit{Hard: hard, Soft: soft, SoftTime: time.Duration(seconds) * time.Second}
	}
	*k.field(c) = next
	return nil
}

func (l *OutputLimits) class(name string) *OutputLimit {
	switch name {
	case "normal":
		return &l.Normal
	case "replica", "slave":
		return &l.Replica
	case "pubsub":
		return &l.PubSub
	}
	return nil
}

func (k outputLimits) format(c *Config) string {
	l := *k.field(c)
	one := func(class string, l OutputLimit) string {
		return fmt.Sprintf("%s %d %d %d", class, l.Hard, l.Soft, l.SoftTime/time.Second)
	}
	// Redis 7.0 shows the class replica by its old name.
	return one("normal", l.Normal) + " " + one("slave", l.Replica) + " " + one("pubsub", l.PubSub)
}

func (k outputLimits) describe() string {
	return "\"<class> <hard limit> <soft limit> <soft seconds>\", repeated, for the classes normal, replica and pubsub"
}

// maxSeconds, maxMilliseconds and maxMicroseconds are what a time.Duration holds.
const (
	maxSeconds      = math.MaxInt64 / int64(time.Second)
	maxMicroseconds = math.MaxInt64 / int64(time.Microsecond)
	maxMilliseconds = math.MaxInt64 / int64(time.Millisecond)
)

// parseInteger is as strict as Redis: no plus sign, no leading zeros, no space.
func parseInteger(text string, low, high int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text {
		return 0, errNotInteger
	}
	return n, checkRange(n, low, high)
}

func checkRange(n, low, high int64) error {
	if n < low || n > high {
		return fmt.Errorf(formatRange, low, high)
	}
	return nil
}

// unit is one of Redis' units for sizes of memory.
type unit struct {
	suffix string
	factor int64
}

// memoryUnits lists the units, the binary ones from the largest.
func memoryUnits() []unit {
	return []unit{
		{"gb", 1 << 30}, {"mb", 1 << 20}, {"kb", 1 << 10},
		{"g", 1e9}, {"m", 1e6}, {"k", 1e3}, {"b", 1}, {"", 1},
	}
}

// parseMemory reads a size: digits and a unit in any case. A size that is too
// large for an int64 becomes the largest, which the range check refuses
// wherever there is a limit.
func parseMemory(text string) (int64, error) {
	digits := strings.TrimRight(strings.ToLower(text), "bgkm")
	suffix := strings.ToLower(text)[len(digits):]
	for _, u := range memoryUnits() {
		if u.suffix != suffix {
			continue
		}
		if digits == "" { // Redis takes no digits for 0, and leaves the rest to the range check
			return 0, nil
		}
		n, err := strconv.ParseUint(digits, 10, 64)
		switch {
		case errors.Is(err, strconv.ErrRange), err == nil && n > uint64(math.MaxInt64/u.factor):
			return math.MaxInt64, nil
		case err != nil:
			return 0, errNotMemory
		}
		return int64(n) * u.factor, nil
	}
	return 0, errNotMemory
}

// memoryText writes a size with the largest unit that leaves a whole number.
func memoryText(n int64) string {
	for _, u := range memoryUnits()[:3] {
		if n >= u.factor && n%u.factor == 0 {
			return strconv.FormatInt(n/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}
