// Certificates of a throw-away CA, made by deploy/make-certs.sh.
#ifndef QUANTD_TESTS_TESTING_CERTIFICATES_H_
#define QUANTD_TESTS_TESTING_CERTIFICATES_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace quantd {

// Writes certificates to `directory`; if it already has a CA, uses that one.
// With `days` 0 they have expired.
inline void MakeCertificates(const std::string& directory, int days = 30) {
  const std::string command = "DAYS=" + std::to_string(days) +
                              " '" QUANTD_MAKE_CERTS "' '" + directory +
                              "' >/dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

}  // namespace quantd

#endif  // QUANTD_TESTS_TESTING_CERTIFICATES_H_
