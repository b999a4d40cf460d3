// Makes sure that an interrupted quantctl leaves no half-written file behind.
#ifndef QUANTD_CLIENT_QUANTCTL_SIGNALS_H_
#define QUANTD_CLIENT_QUANTCTL_SIGNALS_H_

#include <atomic>
#include <string>

namespace quantd::quantctl {

// Makes SIGHUP, SIGINT and SIGTERM remove the drafts of output files before
// they end the process in the usual way, so that a shell sees 129, 130 or 143.
// Signals that the parent ignores stay ignored. Exceeding the limit of file
// size becomes an error instead of a signal. Must be called before any other
// thread is started.
void RemoveDraftsOnSignals();

// Sets what the program prints on stderr when such a signal ends it; "":
// nothing.
void SayOnSignals(const std::string& text);

// The next such signal only stores its number in `stop`, so that a command can
// end early with its results so far; another one ends the process.
void StopOnSignal(std::atomic<int>* stop);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_SIGNALS_H_
