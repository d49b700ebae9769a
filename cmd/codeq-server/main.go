// Command codeq-server is the server. It owns the wiring: it reads the flags, the environment and the configuration file,
// opens the data, listens, and stops everything in the opposite order.
//
// It must not know what a command does. Its goroutines are one for each listener, stopped by the drain, one that
// closes the data, and one that waits for signals, which ends with the process, as does the one on which the store
// tells that it has failed. Locks: none.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"codeq/config"
	"codeq/internal/version"
)

func main() {
	err := rootCommand().Execute()
	if err == nil {
		return
	}
	// What the log has already is not said twice.
	if logged := (loggedError{}); !errors.As(err, &logged) {
		fmt.Fprintln(os.Stderr, "codeq-server:", err)
	}
	os.Exit(1)
}

// flags are those flags that are not settings.
type flags struct {
	config string
	check  bool
}

// settingFlags are the flags that stand for settings, by name. Every other setting is given in the file or the environment.
func settingFlags() []settingFlag {
	return []settingFlag{
		{"addr", "addr", "listen on `HOST:PORT`; port 0 picks a free one"},
		{"data", "dir", "keep everything that is stored in `DIR`"},
		{"shards", "shards", "make a new data folder with `N` shards; an old one is started with its own number"},
		{"appendfsync", "appendfsync", "make writes safe from power loss by `POLICY`: always, everysec or no"},
	}
}

// settingFlag is a flag, the setting that it gives, and what the help says, with its value in back quotes.
type settingFlag struct{ name, setting, usage string }

func rootCommand() *cobra.Command {
	var f flags
	command := &cobra.Command{
		Use:   "codeq-server",
		Short: "A durable queue server that speaks the Redis protocol",
		Long: "codeq-server is a durable queue server that speaks the Redis protocol.\n\n" +
			"Flags count before CODEQ_… environment variables, those before the configuration file, and that before\n" +
			"the defaults. docs/configuration.md lists every setting.",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       versionText(),
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := loadConfig(command, f.config)
			if err != nil {
				return err
			}
			if f.check {
				return check(command.OutOrStdout(), c)
			}
			return serve(c)
		},
	}
	command.SetVersionTemplate("codeq-server {{.Version}}\n")
	command.CompletionOptions.DisableDefaultCmd = true
	command.Flags().StringVar(&f.config, "config", "", "read the configuration from `FILE`, in YAML")
	command.Flags().BoolVar(&f.check, "check", false, "check the configuration, say what it comes to, and exit")
	for _, s := range settingFlags() {
		command.Flags().String(s.name, "", s.usage)
	}
	return command
}

// loadConfig reads the configuration from all its sources.
func loadConfig(command *cobra.Command, file string) (*config.Config, error) {
	sources := config.Sources{File: file, Environ: os.Environ()}
	for _, s := range settingFlags() {
		if flag := command.Flags().Lookup(s.name); flag.Changed {
			sources.Flags = append(sources.Flags, config.Flag{Setting: s.setting, Value: flag.Value.String(), Origin: "--" + s.name})
		}
	}
	c, err := config.Load(sources)
	if err != nil {
		return nil, fmt.Errorf("the configuration is not valid:\n%w", err)
	}
	return c, nil
}

// check says what the configuration comes to. Nothing is opened or created.
func check(out io.Writer, c *config.Config) error {
	if _, err := newRouter(c); err != nil {
		return err
	}
	addresses := c.Addr
	if c.UnixSocket != "" {
		addresses = c.Addr + " " + c.UnixSocket
	}
	_, err := fmt.Fprintf(out, "The configuration is valid.\n\nlistens on   %s\ndata         %s\nshards       %d\nnamed shards %d\n"+
		"supplier     %s\nappendfsync  %s\ndatabases    %d\n",
		addresses, c.Dir, c.Shards, len(c.NamedShards), c.Supplier, c.AppendFsync, c.Databases)
	return err
}

// versionText is the version with what it was built from and with.
func versionText() string {
	text := version.Number
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				text += " (" + s.Value + ")"
			}
		}
	}
	return text + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
