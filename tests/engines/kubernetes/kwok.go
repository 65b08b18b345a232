package main

import (
	"github.com/spf13/pflag"
	"sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

// runKwok runs kwok, which simulates nodes, with the arguments of the process. It returns when a signal ends the process.
func runKwok() error {
	// kwok reads its global options, such as --config, before cobra parses the command line.
	global := pflag.NewFlagSet("global", pflag.ContinueOnError)
	global.ParseErrorsWhitelist.UnknownFlags = true
	global.Usage = func() {}
	ctx, _ := log.InitFlags(signals.SetupSignalContext(), global)
	ctx, err := config.InitFlags(ctx, global)
	if err != nil {
		return err
	}
	command := kwok.NewCommand(ctx)
	command.Version = "" // cobra would add a flag --version, which k8s.io/component-base also adds
	command.PersistentFlags().AddFlagSet(global)
	return command.ExecuteContext(ctx)
}
