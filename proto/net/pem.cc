#include "proto/net/pem.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "fmt/format.h"

namespace quantd::security {
namespace {

constexpr size_t kLargestFile = 1 << 20;

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Bio = std::unique_ptr<BIO, Free>;
using Certificate = std::unique_ptr<X509, Free>;

Bio Over(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

absl::Status Refuse(std::string_view what, std::string_view why) {
  return absl::FailedPreconditionError(fmt::format("{}: {}", what, why));
}

// OpenSSL calls this to get the passphrase of an encrypted key. Records the
// call in `asked`.
int NoPassphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

std::vector<Certificate> ReadCertificates(const std::string& pem) {
  std::vector<Certificate> all;
  const Bio bio = Over(pem);
  bool asked = false;
  while (X509* one =
             PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, &asked)) {
    all.emplace_back(one);
  }
  // OpenSSL reports the end of the file as an error, which must not stay in its
  // error queue.
  ERR_clear_error();
  return all;
}

absl::Time ToTime(const ASN1_TIME* time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfinitePast();
  return absl::FromTM(parts, absl::UTCTimeZone());
}

std::string SubjectOf(const X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), X509_get_subject_name(certificate), 0,
                     XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, std::max(size, 0L));
}

std::string Written(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

// The reason why the certificate is not valid at `now`; empty if it is valid.
std::string Invalidity(const X509* certificate, absl::Time now) {
  const absl::Time from = ToTime(X509_get0_notBefore(certificate));
  const absl::Time until = ToTime(X509_get0_notAfter(certificate));
  if (now >= until) {
    return fmt::format("the certificate of \"{}\" expired at {}; replace it",
                       SubjectOf(certificate), Written(until));
  }
  if (now < from) {
    return fmt::format(
        "the certificate of \"{}\" is not valid before {}; check the clock or "
        "use another certificate",
        SubjectOf(certificate), Written(from));
  }
  return "";
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(std::string_view what,
                                          const std::string& path) {
  const auto refuse = [&](std::string_view why) {
    return Refuse(what, fmt::format("cannot be read: {}", why));
  };
  // Non-blocking, because opening a pipe without a writer would block.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int error = errno;
    return refuse(fmt::format(
        "{}{}", strerror(error),
        error == EACCES
            ? fmt::format("; let the user that runs this (uid {}) read it",
                          geteuid())
            : ""));
  }
  struct stat about = {};
  std::string text;
  int error = 0;
  if (fstat(fd, &about) != 0) {
    error = errno;
  } else if (S_ISREG(about.st_mode)) {
    char buffer[16384];
    ssize_t n = 0;
    while (text.size() <= kLargestFile &&
           (n = read(fd, buffer, sizeof(buffer))) > 0) {
      text.append(buffer, n);
    }
    if (n < 0) error = errno;
  }
  close(fd);
  if (error != 0) return refuse(strerror(error));
  if (!S_ISREG(about.st_mode)) return refuse("it is not a regular file");
  if (text.size() > kLargestFile) return refuse("it has more than 1 MiB");
  if (text.empty()) return refuse("it is empty");
  return text;
}

absl::StatusOr<CertificateFacts> CheckIdentity(
    std::string_view certificate_what, const std::string& certificate,
    std::string_view key_what, const std::string& key, absl::Time now) {
  const std::vector<Certificate> chain = ReadCertificates(certificate);
  if (chain.empty()) {
    return Refuse(certificate_what,
                  "holds no PEM certificate (\"-----BEGIN CERTIFICATE-----\")");
  }
  for (const Certificate& one : chain) {
    if (const std::string why = Invalidity(one.get(), now); !why.empty()) {
      return Refuse(certificate_what, why);
    }
  }
  bool asked = false;
  const Bio bio = Over(key);
  const std::unique_ptr<EVP_PKEY, Free> pair(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, &asked));
  ERR_clear_error();
  if (pair == nullptr) {
    return Refuse(key_what,
                  asked ? "the key is encrypted, and there is no way to enter "
                          "its passphrase: decrypt it with 'openssl pkey'"
                        : "holds no PEM private key (\"-----BEGIN PRIVATE "
                          "KEY-----\")");
  }
  const bool match = X509_check_private_key(chain.front().get(), pair.get());
  ERR_clear_error();
  if (!match) {
    return Refuse(
        key_what,
        fmt::format("is not the key of the first certificate in {}; the two "
                    "files must be created and replaced together",
                    certificate_what));
  }
  return CertificateFacts{SubjectOf(chain.front().get()),
                          ToTime(X509_get0_notAfter(chain.front().get()))};
}

absl::Status CheckAuthorities(std::string_view what, const std::string& pem,
                              absl::Time now) {
  const std::vector<Certificate> all = ReadCertificates(pem);
  if (all.empty()) {
    return Refuse(what,
                  "holds no PEM certificate (\"-----BEGIN CERTIFICATE-----\")");
  }
  std::string why;
  for (const Certificate& one : all) {
    why = Invalidity(one.get(), now);
    if (why.empty()) return absl::OkStatus();
  }
  return Refuse(what, why);
}

}  // namespace quantd::security
