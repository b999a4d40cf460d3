// An interrupted quantctl leaves no half-written file behind.
#ifndef QUANTD_CLIENT_QUANTCTL_SIGNALS_H_
#define QUANTD_CLIENT_QUANTCTL_SIGNALS_H_

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

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_SIGNALS_H_
