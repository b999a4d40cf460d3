// Handles signals, so that an interrupted quantctl leaves no incomplete file
// behind, except a conversion's .partial shards, from which it continues.
#ifndef QUANTD_CLIENT_QUANTCTL_SIGNALS_H_
#define QUANTD_CLIENT_QUANTCTL_SIGNALS_H_

#include <atomic>
#include <string>

namespace quantd::quantctl {

// Makes SIGHUP, SIGINT and SIGTERM remove incomplete output files before they
// end the process, so that a shell sees exit code 129, 130 or 143. Signals that
// the parent process ignores stay ignored. Exceeding the file size limit
// becomes an error instead of a signal. Must be called before any thread is
// started.
void RemoveDraftsOnSignals();

// Sets the text to print on stderr if such a signal ends the process; "" for
// none.
void SayOnSignals(const std::string& text);

// Makes the next such signal only store its number in `stop`, so that a command
// can end early and print its results. A further signal ends the process.
void StopOnSignal(std::atomic<int>* stop);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_SIGNALS_H_
