// Tests of reading and writing files: existing content is never lost, and no
// temporary file is left.
#include "client/files/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fmt/format.h"
#include "tests/client/temp_dir.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

absl::Span<const std::byte> Bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

absl::Status Save(const std::string& path, std::string_view text,
                  std::optional<FileIdentity> source = {}) {
  auto file = OutputFile::Create(path, source);
  if (!file.ok()) return file.status();
  if (auto s = file->WriteAt(0, Bytes(text)); !s.ok()) return s;
  return file->Commit();
}

TEST(InputFile, ReportsTruncation) {
  const TempDir dir;
  const std::string path = dir / "a";
  WriteFile(path, std::string(100'000, 'x'));
  ASSERT_OK_AND_ASSIGN(const auto file, InputFile::Open(path));
  std::vector<std::byte> bytes(50'000);
  EXPECT_THAT(file.ReadAt(50'000, absl::MakeSpan(bytes)), IsOk());
  ASSERT_EQ(truncate(path.c_str(), 60'000), 0);
  // Truncation is an error even if the requested bytes still exist.
  for (const size_t offset : {size_t{50'000}, size_t{0}}) {
    const auto s = file.ReadAt(offset, absl::MakeSpan(bytes));
    EXPECT_THAT(
        s,
        AllOf(StatusIs(StatusCode::kDataLoss),
              Says(AllOf(
                  HasSubstr(path),
                  HasSubstr(
                      "truncated while it was read: 60000 bytes of 100000")))));
  }
}

TEST(InputFile, ReportsAWriteDuringReading) {
  const TempDir dir;
  const std::string path = dir / "a";
  WriteFile(path, "before");
  const auto file = InputFile::Open(path);
  ASSERT_THAT(file, IsOk());
  const timespec later[2] = {{0, UTIME_NOW}, {2'000'000'000, 0}};
  const int fd = open(path.c_str(), O_WRONLY);
  ASSERT_EQ(write(fd, "afteri", 6), 6);
  // Sets the time explicitly, because the file system's clock may be too
  // coarse.
  ASSERT_EQ(futimens(fd, later), 0);
  close(fd);
  std::vector<std::byte> bytes(6);
  EXPECT_THAT(file->ReadAt(0, absl::MakeSpan(bytes)),
              StatusIs(StatusCode::kDataLoss));
}

TEST(InputFile, DoesNotFollowUnexpectedLinks) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "folder");
  WriteFile(dir / "folder/a", "text");
  std::filesystem::create_symlink("folder", dir / "link");
  std::filesystem::create_symlink("a", dir / "folder/b");
  ASSERT_OK_AND_ASSIGN(const auto file,
                       InputFile::OpenUnlinked(dir / "folder/a", "said"));
  EXPECT_EQ(file.size(), 4u);
  EXPECT_EQ(file.path(), "said");
  for (const char* name : {"link/a", "folder/b", "gone/a", "folder/gone"}) {
    EXPECT_THAT(InputFile::OpenUnlinked(dir / name, "said"),
                Says(HasSubstr("cannot open said")));
  }
}

TEST(InputFile, OpensOnlyRegularFilesWithoutBlocking) {
  const TempDir dir;
  ASSERT_EQ(mkfifo((dir / "fifo").c_str(), 0600), 0);
  for (const std::string& path :
       {dir / "fifo", dir.path().string(), std::string("/dev/zero")}) {
    EXPECT_THAT(InputFile::Open(path), StatusIs(StatusCode::kInvalidArgument))
        << path;
  }
}

TEST(OutputFile, NeverReplacesItsSource) {
  const TempDir dir;
  const std::string path = dir / "a";
  WriteFile(path, "source");
  std::filesystem::create_symlink(path, dir / "symbolic");
  std::filesystem::create_hard_link(path, dir / "hard");
  std::filesystem::create_directory(dir / "sub");
  const auto source = InputFile::Open(path);
  ASSERT_THAT(source, IsOk());
  for (const std::string& name :
       {path, dir / "symbolic", dir / "hard", dir / "sub/../a"}) {
    EXPECT_THAT(Save(name, "other", source->identity()),
                Refused(HasSubstr("it is also the input")));
  }
  // The output may become the source while it is written.
  ASSERT_OK_AND_ASSIGN(auto late,
                       OutputFile::Create(dir / "late", source->identity()));
  std::filesystem::create_hard_link(path, dir / "late");
  EXPECT_THAT(late.Commit(), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_EQ(ReadFile(path), "source");
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "symbolic"));
  EXPECT_EQ(std::filesystem::hard_link_count(path), 3u);
  EXPECT_THAT(Save(dir / "b", "other", source->identity()), IsOk());
}

TEST(OutputFile, WritesToDevicesAndPipesWithoutReplacingThem) {
  const TempDir dir;
  const std::string null = OwnDevice(dir / "null", 3, "/dev/null");
  EXPECT_THAT(Save(null, "nothing"), IsOk());
  EXPECT_TRUE(std::filesystem::is_character_file(null));

  const std::string fifo = dir / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(Save(fifo, "x"), Refused(HasSubstr("has no reader")));
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  {
    ASSERT_OK_AND_ASSIGN(auto file, OutputFile::Create(fifo));
    // Writes may come in any order, although a pipe is sequential.
    EXPECT_THAT(file.WriteAt(3, Bytes("def")), IsOk());
    EXPECT_THAT(file.WriteAt(0, Bytes("abc")), IsOk());
    char none;
    EXPECT_LE(read(reader, &none, 1), 0) << "bytes arrive before Commit";
    EXPECT_THAT(file.Commit(), IsOk());
  }
  char bytes[16] = {};
  EXPECT_EQ(read(reader, bytes, sizeof bytes), 6);
  EXPECT_STREQ(bytes, "abcdef");
  close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));

  std::filesystem::create_directory(dir / "sub");
  const int server = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  fmt::format_to_n(address.sun_path, sizeof address.sun_path - 1, "{}",
                   dir / "socket");
  ASSERT_EQ(bind(server, reinterpret_cast<sockaddr*>(&address), sizeof address),
            0);
  std::filesystem::create_symlink(dir / "nothing", dir / "dangling");
  for (const char* name : {"sub", "socket", "dangling"}) {
    EXPECT_THAT(Save(dir / name, "x"), StatusIs(StatusCode::kInvalidArgument))
        << name;
  }
  EXPECT_THAT(Save("", "x"), StatusIs(StatusCode::kInvalidArgument));
  close(server);
}

TEST(OutputFile, FollowsLinksAndKeepsTheMode) {
  const TempDir dir;
  WriteFile(dir / "a", "before");
  ASSERT_EQ(chmod((dir / "a").c_str(), 0600), 0);
  std::filesystem::create_symlink("a", dir / "link");
  ASSERT_THAT(Save(dir / "link", "after"), IsOk());
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link"));
  EXPECT_EQ(ReadFile(dir / "a"), "after");
  struct stat info = {};
  ASSERT_EQ(stat((dir / "a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_EQ(dir.files(), 2u);
}

TEST(OutputFile, ReportsAFullDisk) {
  const TempDir devices;
  const std::string device = OwnDevice(devices / "full", 7, "/dev/full");
  const auto s = Save(device, "x");
  EXPECT_THAT(s, Says(AllOf(HasSubstr("No space left"), HasSubstr(device))));

  const TempDir dir;
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {1000, before.rlim_max};
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  absl::Status reserved;
  absl::Status written;
  {
    auto file = OutputFile::Create(dir / "a");
    reserved = file->Reserve(100'000);
    written = file->WriteAt(0, Bytes(std::string(2000, 'x')));
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_THAT(std::string(reserved.message()), HasSubstr("100000 bytes are"));
  EXPECT_FALSE(written.ok());
  EXPECT_THAT(std::string(written.message()), HasSubstr(dir / "a"));
  EXPECT_EQ(dir.files(), 0u);
}

// Returns a process id that is not in use.
pid_t DeadProcess() {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  waitpid(pid, nullptr, 0);
  return pid;
}

TEST(OutputFile, RemovesOnlyDraftsOfDeadProcesses) {
  const TempDir dir;
  const std::string path = dir / "a";
  const auto draft = [&](pid_t pid) {
    return fmt::format("{}.partial.{}", path, pid);
  };
  const std::string dead = draft(DeadProcess());
  const std::string own = draft(getpid());  // of an earlier process with our id
  const std::string alive = draft(getppid());
  const std::string other = path + ".partial.1x";
  for (const auto& name : {dead, own, alive, other}) WriteFile(name, "old");
  // The process of this draft seems dead, but may run in another container.
  const std::string held = draft(DeadProcess());
  WriteFile(held, "old");
  const int fd = open(held.c_str(), O_RDONLY);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  EXPECT_THAT(Save(path, "new"), IsOk());
  EXPECT_EQ(ReadFile(path), "new");
  for (const auto& name : {dead, own}) {
    EXPECT_FALSE(std::filesystem::exists(name)) << name;
  }
  for (const auto& name : {alive, other, held}) {
    EXPECT_EQ(ReadFile(name), "old") << name;
  }
  close(fd);

  // Two outputs to the same file in one process.
  ASSERT_OK_AND_ASSIGN(auto first, OutputFile::Create(dir / "b"));
  EXPECT_THAT(OutputFile::Create(dir / "b"),
              StatusIs(StatusCode::kAlreadyExists));
  EXPECT_THAT(first.Commit(), IsOk());
}

}  // namespace
}  // namespace quantd
