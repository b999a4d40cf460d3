// The exit codes of quantctl and their meanings. --help, the manual and the
// tests use this table.
#ifndef QUANTD_CLIENT_QUANTCTL_TERMINAL_EXIT_CODES_H_
#define QUANTD_CLIENT_QUANTCTL_TERMINAL_EXIT_CODES_H_

namespace quantd::quantctl {

// The exit codes. Scripts depend on them, so they must never change.
enum ExitCode : int {
  kOk = 0,
  kInternal = 1,
  kUsage = 2,
  kBadInput = 3,
  kUnreachable = 4,
  kRefused = 5,
  kPartly = 6,
  kCannotWrite = 7,
  kFindings = 8,
};

struct ExitMeaning {
  ExitCode code;
  const char* meaning;
};
inline constexpr ExitMeaning kExitCodes[] = {
    {kOk, "success"},
    {kInternal, "internal error"},
    {kUsage, "invalid command line: a command, an option or its value"},
    {kBadInput,
     "the input cannot be read, is malformed, or has nothing to process"},
    {kUnreachable,
     "there is no server, or it was busy or did not reply before the deadline"},
    {kRefused, "the server refused the request"},
    {kPartly,
     "some tensors failed, so that no file is written, or some calls of bench "
     "failed"},
    {kCannotWrite, "the output cannot be written"},
    {kFindings,
     "lint, verify, repair or compare found faults, different bytes or too "
     "large errors, or nothing to examine"},
};

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_TERMINAL_EXIT_CODES_H_
