package main

import (
	"io"
	"log/slog"

	"codeq/config"
)

// loggedError is an error that was logged when it happened.
type loggedError struct{ error }

// newLogger writes one line per event in the configured form. The level can be changed while the server runs.
func newLogger(out io.Writer, format config.LogFormat, level *slog.LevelVar) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: plainError}
	if format == config.LogJSON {
		return slog.New(slog.NewJSONHandler(out, options))
	}
	return slog.New(slog.NewTextHandler(out, options))
}

// plainError has an error logged by its text. Those of Pebble would print the stack where they were made, too.
func plainError(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(err.Error())
	}
	return a
}

// slogLevel is the level of slog that a loglevel begins with. Verbose lies between debug and notice, as in Redis.
func slogLevel(level config.LogLevel) slog.Level {
	switch level {
	case config.LogDebug:
		return slog.LevelDebug
	case config.LogVerbose:
		return (slog.LevelDebug + slog.LevelInfo) / 2
	case config.LogWarning:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}
