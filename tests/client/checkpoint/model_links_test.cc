// Tests of models whose directories contain links and unreadable files.
#include <linux/capability.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <functional>

#include "client/checkpoint/model.h"
#include "tests/client/checkpoint/model_fixture.h"
#include "tests/client/checkpoint/model_writer.h"

namespace quantd::checkpoint {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ModelLinks : public ModelFixture {
 protected:
  // Returns the path as messages show it, with links resolved.
  std::string Real(std::string_view name) const {
    return std::filesystem::weakly_canonical(At(name)).string();
  }
  void SetUp() override { WriteLlama(At("m")); }
};

TEST_F(ModelLinks, NamesTheLinkOrSpecialFileThatItRefuses) {
  namespace fs = std::filesystem;
  const auto link = [&](const std::string& target, std::string_view name) {
    fs::remove(At(name));
    fs::create_symlink(target, At(name));
  };
  WriteLlama(At("m2"));
  WriteFile(At("m2/shadow"), "secret");
  WriteFile(At("m2/hf_quant_config.json"), "{}");
  const std::string shard = "model-00001-of-00002.safetensors";
  const std::string index = "model.safetensors.index.json";
  struct Case {
    const char* name;
    std::function<void()> plant;
    std::string says;
  };
  const std::string file = "is a link to the file " + Real("m2") + "/";
  const std::string remedy =
      ", outside the model; replace it by a copy or remove it";
  const Case cases[] = {
      {"m/etc", [&] { link(At("m2"), "m/etc"); },
       "is a link to the directory " + Real("m2") + remedy},
      {"m/inner",
       [&] {
         fs::create_directory(At("m/real"));
         link("real", "m/inner");
       },
       "is a link to the directory " + Real("m/real") + "; replace it"},
      {"m/self", [&] { link(".", "m/self"); },
       "is a link to the directory " + Real("m") + "; replace it"},
      {"m/notes", [&] { link("../m2/shadow", "m/notes"); },
       file + "shadow" + remedy},
      {"m/sub/notes",
       [&] {
         fs::create_directory(At("m/sub"));
         link("../../m2/shadow", "m/sub/notes");
       },
       file + "shadow" + remedy},
      {"m/sub/etc",
       [&] {
         fs::create_directory(At("m/sub"));
         link(At("m2"), "m/sub/etc");
       },
       "is a link to the directory " + Real("m2") + remedy},
      {"m/config.json", [&] { link("../m2/config.json", "m/config.json"); },
       file + "config.json" + remedy},
      {"m/hf_quant_config.json",
       [&] { link("../m2/hf_quant_config.json", "m/hf_quant_config.json"); },
       file + "hf_quant_config.json" + remedy},
      {"m/model-00001-of-00002.safetensors",
       [&] { link("../m2/" + shard, "m/" + shard); }, file + shard + remedy},
      {"m/model.safetensors.index.json",
       [&] { link("../m2/" + index, "m/" + index); }, file + index + remedy},
      {"m/config.json", [&] { link("gone", "m/config.json"); },
       "is a link to gone, which does not exist; fetch that file again"},
      {"m/tokenizer.json", [&] { link("gone", "m/tokenizer.json"); },
       "is a link to gone, which does not exist; fetch that file again"},
      {"m/config.json", [&] { link("config.json", "m/config.json"); },
       "is part of a loop of links; remove it"},
      {"m/a",
       [&] {
         link("b", "m/a");
         link("a", "m/b");
       },
       "is part of a loop of links; remove it"},
      {"m/null", [&] { link("/dev/null", "m/null"); },
       "is a link to the device /dev/null" + remedy},
      {"m/pipe", [&] { ASSERT_EQ(mkfifo(At("m/pipe").c_str(), 0600), 0); },
       "is a FIFO instead of a file; remove it"},
      {"m/socket",
       [&] {
         sockaddr_un address = {AF_UNIX, {}};
         At("m/socket").copy(address.sun_path, sizeof address.sun_path - 1);
         const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
         EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address),
                        sizeof address),
                   0);
         close(fd);
       },
       "is a socket instead of a file; remove it"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    fs::remove_all(At("m"));
    WriteLlama(At("m"));
    c.plant();
    EXPECT_THAT(Model::Open(At("m")),
                Refused(HasSubstr(At(c.name) + " " + c.says)));
  }
}

TEST_F(ModelLinks, AcceptsLinksWithinTheModelAndLinksThatItDoesNotRead) {
  namespace fs = std::filesystem;
  fs::create_directories(At("m/.git/annex"));
  WriteFile(At("m/.git/annex/1"), "text");
  fs::create_symlink(".git/annex/1", At("m/notes"));
  fs::create_symlink("/etc", At("m/.hidden"));
  fs::create_symlink("gone", At("m/pytorch_model.bin"));
  fs::create_symlink("m", At("named"));
  const auto model = Model::Open(At("named"));
  ASSERT_THAT(model, IsOk());
  EXPECT_THAT(model->others(), ElementsAre("notes", "tokenizer.json"));
  fs::create_symlink("m/model-00001-of-00002.safetensors",
                     At("one.safetensors"));
  EXPECT_THAT(Model::Open(At("one.safetensors")), IsOk());
}

// Takes away the thread's privilege to read any file, within a scope.
class WithoutOverride {
 public:
  WithoutOverride() {
    syscall(SYS_capget, &head_, had_);
    __user_cap_data_struct less[2] = {had_[0], had_[1]};
    less[0].effective &= ~(1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH);
    syscall(SYS_capset, &head_, less);
  }
  ~WithoutOverride() { syscall(SYS_capset, &head_, had_); }

 private:
  __user_cap_header_struct head_ = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct had_[2] = {};
};

TEST_F(ModelLinks, NamesAFolderThatCannotBeRead) {
  std::filesystem::create_directory(At("m/lost+found"));
  ASSERT_EQ(chmod(At("m/lost+found").c_str(), 0), 0);
  const WithoutOverride mode_counts;
  ASSERT_OK_AND_ASSIGN(const auto model, Model::Open(At("m")));
  EXPECT_THAT(model.notes(),
              ElementsAre("lost+found/ cannot be read and is left out "
                          "(Permission denied): make it readable if the "
                          "model needs it"));
}

// A downloaded model as huggingface_hub stores it.
class HubCache : public ModelLinks {
 protected:
  void SetUp() override {
    namespace fs = std::filesystem;
    fs::create_directories(At("disk/blobs"));
    fs::create_directories(At("disk/snapshots"));
    ModelLinks::SetUp();
    fs::create_directory(At("m/1_Pooling"));
    WriteFile(At("m/1_Pooling/config.json"), "{}");
    WriteLlama(At("m/part"));
    fs::rename(At("m"), At(kSnapshot));
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(At(kSnapshot))) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    for (const fs::path& file : files) {
      const std::string blob = fmt::format("disk/blobs/{}", ++blobs_);
      fs::rename(file, At(blob));
      fs::create_symlink(fs::relative(At(blob), file.parent_path()), file);
    }
  }
  void Refuses(const std::string& what) const {
    EXPECT_THAT(
        Model::Open(At(kSnapshot)),
        Refused(AllOf(HasSubstr(what), HasSubstr(", outside the model;"))));
  }
  static constexpr char kSnapshot[] = "disk/snapshots/0123";
  int blobs_ = 0;
};

TEST_F(HubCache, OpensByEveryPathThatLeadsToTheSnapshot) {
  namespace fs = std::filesystem;
  fs::create_directory_symlink("disk", At("home"));
  fs::create_directory_symlink(At(kSnapshot), At("short"));
  for (const std::string& name :
       {At(kSnapshot), At("home/snapshots/0123"), At("short"),
        At("home/blobs/../snapshots/0123/"),
        fs::relative(At("home/snapshots/0123")).string(), At("short/part")}) {
    SCOPED_TRACE(name);
    const auto model = Model::Open(name);
    ASSERT_THAT(model, IsOk());
    EXPECT_EQ(model->tensors().size(), 21u);
    EXPECT_EQ(model->model_type(), "llama");
    if (name.ends_with("part")) continue;
    EXPECT_THAT(model->others(),
                ElementsAre("1_Pooling/config.json", "part/config.json",
                            "part/model-00001-of-00002.safetensors",
                            "part/model-00002-of-00002.safetensors",
                            "part/model.safetensors.index.json",
                            "part/tokenizer.json", "tokenizer.json"));
    ASSERT_OK_AND_ASSIGN(
        const auto text,
        ReadText(model->folder().OpenFile("1_Pooling/config.json"), 9));
    EXPECT_EQ(text, "{}");
  }
}

TEST_F(HubCache, RefusesLinksToFilesOutsideItsBlobs) {
  namespace fs = std::filesystem;
  WriteFile(At("secret"), "1");
  WriteFile(At("disk/blobs2"), "1");
  const std::string link = At(std::string(kSnapshot) + "/x");
  fs::create_symlink("../../blobs2", link);
  Refuses("/x is a link to the file " + Real("disk/blobs2"));
  fs::remove(link);
  // A blob that is a link itself.
  fs::create_symlink("../../secret", At("disk/blobs/x"));
  fs::create_symlink("../../blobs/x", link);
  Refuses("/x is a link to the file " + Real("secret"));
  // The folder of all blobs is a link to another folder.
  fs::remove(At("disk/blobs/x"));
  fs::rename(At("disk/blobs"), At("secret2"));
  WriteFile(At("secret2/x"), "1");
  fs::create_directory_symlink("../secret2", At("disk/blobs"));
  Refuses("is a link to the file " + Real("secret2"));
}

}  // namespace
}  // namespace quantd::checkpoint
