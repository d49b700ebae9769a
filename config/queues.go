package config

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// QueueRule says what is set for the queues whose command and tenant match its patterns, globs as those of KEYS. Of several rules
// that match, the first one that has a value for something counts.
type QueueRule struct {
	Command, Tenant string
	Values          []QueueValue
}

// QueueValue is one thing that is set for a queue. Durations are in milliseconds, sizes in bytes; yes is 1.
type QueueValue struct {
	Name   string
	Number int64
	Word   string // of backoff
	text   string
}

// Names of what can be set for queues.
const (
	QueueLease       = "lease"
	QueueAttempts    = "attempts"
	QueueBackoff     = "backoff"
	QueueBackoffBase = "backoff-base"
	QueueBackoffMax  = "backoff-max"
	QueueRetention   = "retention"
	QueuePaused      = "paused"
	QueueMaxPending  = "max-pending"
	QueueMaxPayload  = "max-payload"
	QueueMaxRate     = "max-rate"
	QueueSlotDigits  = "shard-prefix-len"
)

// queueBackoffs are the words for backoff.
func queueBackoffs() []string {
	return []string{"fixed", "linear", "exponential", "exp_full_jitter", "exp_equal_jitter"}
}

// queueRules maps patterns of queues, command:tenant, to settings; as text, the rules have semicolons between them.
type queueRules struct {
	field func(*Config) *[]QueueRule
}

func (k queueRules) clear(c *Config) { *k.field(c) = nil }

func (k queueRules) put(c *Config, pattern, settings string) error {
	rule := QueueRule{Tenant: "*"}
	command, tenant, hasTenant := strings.Cut(pattern, ":")
	if rule.Command = strings.ToLower(command); hasTenant {
		rule.Tenant = tenant
	}
	words := strings.Fields(settings)
	if command == "" || len(words) == 0 {
		return fmt.Errorf("the rule %q has no pattern or sets nothing", pattern+" "+settings)
	}
	if strings.ContainsAny(pattern, " \t\r\n;") {
		return fmt.Errorf("the pattern %q has a blank or a semicolon, which end a pattern and a rule: write ? for it", pattern)
	}
	if strings.Contains(pattern, "=") {
		return fmt.Errorf("the pattern %q has an equals sign: as text, a rule is a pattern, a blank and settings, such as mail lease=30s; * attempts=3", pattern)
	}
	for _, word := range words {
		name, text, _ := strings.Cut(word, "=")
		value := QueueValue{Name: name, text: text}
		if slices.ContainsFunc(rule.Values, func(v QueueValue) bool { return v.Name == name }) {
			return fmt.Errorf("%s stands twice in one rule", name)
		}
		if err := value.parse(); err != nil {
			return fmt.Errorf("%s: %w", word, err)
		}
		rule.Values = append(rule.Values, value)
	}
	*k.field(c) = append(*k.field(c), rule)
	return nil
}

func (v *QueueValue) parse() (err error) {
	switch v.Name {
	case QueueLease, QueueBackoffBase, QueueBackoffMax, QueueRetention:
		return v.parseDuration()
	case QueueBackoff:
		if v.Word = strings.ToLower(v.text); !slices.Contains(queueBackoffs(), v.Word) {
			return fmt.Errorf(formatEnum, strings.Join(queueBackoffs(), ", "))
		}
	case QueuePaused:
		switch v.text {
		case "yes":
			v.Number = 1
		case "no":
		default:
			return errNotBoolean
		}
	case QueueMaxPayload:
		v.Number, err = parseMemory(v.text)
	case QueueAttempts:
		v.Number, err = parseInteger(v.text, 1, math.MaxInt32)
	case QueueSlotDigits:
		v.Number, err = parseInteger(v.text, 1, 4)
	case QueueMaxPending, QueueMaxRate:
		v.Number, err = parseInteger(v.text, 0, math.MaxInt32)
	default:
		return fmt.Errorf("there is no such setting of a queue")
	}
	return err
}

// maxQueueDuration keeps times, as milliseconds and as scores, exact.
const maxQueueDuration = 100 * 365 * 24 * time.Hour

func (v *QueueValue) parseDuration() error {
	d, err := time.ParseDuration(v.text)
	if err != nil || d < time.Millisecond || d > maxQueueDuration {
		return fmt.Errorf("a duration from 1ms to a hundred years is needed, such as 30s or 15m")
	}
	v.Number = d.Milliseconds()
	return nil
}

func (k queueRules) parse(c *Config, text string) error {
	k.clear(c)
	for rule := range strings.SplitSeq(text, ";") {
		rule = strings.TrimSpace(rule)
		if rule == "" {
			continue
		}
		pattern, settings, _ := strings.Cut(rule, " ")
		if err := k.put(c, pattern, settings); err != nil {
			return err
		}
	}
	return nil
}

func (k queueRules) format(c *Config) string {
	var rules []string
	for _, rule := range *k.field(c) {
		words := []string{rule.Command + ":" + rule.Tenant}
		for _, v := range rule.Values {
			words = append(words, v.Name+"="+v.text)
		}
		rules = append(rules, strings.Join(words, " "))
	}
	return strings.Join(rules, "; ")
}

func (k queueRules) describe() string {
	return "a mapping of patterns such as mail:* to lists of lease, attempts, backoff (" + strings.Join(queueBackoffs(), ", ") +
		"), backoff-base, backoff-max, retention, paused, max-pending, max-payload, max-rate and shard-prefix-len, each with = and its value"
}

// queueSettings are those of queues.
func queueSettings() []setting {
	return []setting{
		{name: "queues", def: "", mutable: true,
			kind: queueRules{func(c *Config) *[]QueueRule { return &c.Queues }},
			doc: "What holds for the queues that match, command:tenant: without a rule a lease of 300s, 5 attempts, backoff exp_full_jitter with base 5s " +
				"and max 900s, retention 24h, slots of 2 digits and no limits; of several rules that match, the first one that sets something counts."},
	}
}
