// An interrupted quantctl leaves no half-written file behind.
#ifndef QUANTD_CLIENT_QUANTCTL_SIGNALS_H_
#define QUANTD_CLIENT_QUANTCTL_SIGNALS_H_

#include <atomic>
#include <string>

namespace quantd::quantctl {

// SIGHUP, SIGINT and SIGTERM remove the drafts of output files and then end
// the process as they do by default, so that a shell sees 129, 130 or 143. One
// that the parent has us ignore stays ignored. A write beyond the size a file
// may have becomes an error and no signal. Call before any other thread is
// made.
void RemoveDraftsOnSignals();

// What such a signal makes the program say on stderr before it ends; "":
// nothing.
void SayOnSignals(const std::string& text);

// The first such signal from now on only leaves its number there, for a command
// that ends early with what it has; the next one ends the process.
void StopOnSignal(std::atomic<int>* stop);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_SIGNALS_H_
