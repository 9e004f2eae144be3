// Files as a stream (meshbus cp): whatever the other side sends, nothing is written outside of the
// place, no link leads there, and what was read can be written again.
#include <unistd.h>

#include <filesystem>
#include <string>

#include "common/files/file_records.h"
#include "common/files/tree_reader.h"
#include "common/files/tree_writer.h"
#include "tests/fuzz/support.h"

namespace fs = std::filesystem;
using namespace meshbus;

namespace {

/// A folder that goes with this process.
struct Scratch {
  Scratch() { fs::create_directories(path); }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  const fs::path path =
      fs::temp_directory_path() / ("meshbus-fuzz-files-" + std::to_string(::getpid()));
};

/// A folder of this process: below it the place, and nothing else ever.
const fs::path& scratch() {
  static const Scratch folder;
  return folder.path;
}

void check_records(std::string_view bytes) {
  FileRecords records;
  records.add(bytes);
  std::string again;
  while (const auto record = records.next())
    add_file_record(again, record->head, record->name, record->bytes);
  FileRecords second;
  second.add(again);
  std::string third;
  while (const auto record = second.next())
    add_file_record(third, record->head, record->name, record->bytes);
  FUZZ_CHECK(!second.is_broken() && third == again, "records changed on the way");
}

void check_place(const fs::path& place) {
  for (const auto& entry : fs::directory_iterator(scratch()))
    FUZZ_CHECK(entry.path() == place, entry.path().string());
  if (!fs::is_directory(fs::symlink_status(place))) return;
  for (const auto& entry : fs::recursive_directory_iterator(place)) {
    if (!entry.is_symlink()) continue;
    std::error_code loop;
    const auto real = fs::weakly_canonical(entry.path(), loop).string();
    const auto root = fs::canonical(place).string();
    const bool is_inside = real == root || real.starts_with(root + "/");
    FUZZ_CHECK(loop || is_inside, entry.path().string());
  }
}

void check_tree(std::string_view bytes, bool is_there, std::size_t piece) {
  const auto place = scratch() / "place";
  fs::remove_all(place);
  if (is_there) fs::create_directory(place);
  {
    auto writer = TreeWriter::open(place.string());
    FUZZ_CHECK(writer.has_value(), "it cannot be opened");
    for (std::size_t at = 0; at < bytes.size(); at += piece)
      if (!writer->add(bytes.substr(at, piece))) break;
  }
  check_place(place);
  if (fs::exists(fs::symlink_status(place)))
    fs::permissions(place, fs::perms::owner_all, fs::perm_options::add);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Eight bytes, so that numbers behind them keep their alignment for the mutator.
  if (size < 8 || size > 8192) return 0;
  const fuzz::ExactCopy copy({reinterpret_cast<const char*>(data) + 8, size - 8});
  check_records(copy.view());
  check_tree(copy.view(), data[0] % 2 == 0, data[1] % 4 == 0 ? 7 : size);
  return 0;
}
