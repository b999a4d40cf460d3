// The meaning of quantctl's exit codes. --help, the manual and the tests read
// this table.
#ifndef QUANTD_CLIENT_QUANTCTL_TERMINAL_EXIT_CODES_H_
#define QUANTD_CLIENT_QUANTCTL_TERMINAL_EXIT_CODES_H_

namespace quantd::quantctl {

// Scripts depend on the numbers: never change one.
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
    {kOk, "done"},
    {kInternal, "internal error"},
    {kUsage, "wrong usage: a command, an option or a value of one"},
    {kBadInput,
     "the input cannot be read, is malformed, or holds nothing to work on"},
    {kUnreachable,
     "no server there, or it was busy or silent until the "
     "deadline"},
    {kRefused, "the server refused the request"},
    {kPartly,
     "some tensors failed and no file is written, or some calls of "
     "bench failed"},
    {kCannotWrite, "the output cannot be written"},
    {kFindings,
     "lint, verify, repair or compare found something: a fault, a "
     "byte that differs, a weight that is too far off, or nothing "
     "to look at"},
};

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_TERMINAL_EXIT_CODES_H_
