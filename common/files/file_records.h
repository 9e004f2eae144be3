#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace meshbus {

/// What a stream of files is made of: `meshbus cp`, between a launcher and a meshbus-hands, which
/// may be of different releases. Each record is 24 bytes, little-endian, then its name, then its
/// bytes. A name is one component of a path: no '/', not "..".
///
///     begin (directory (...) end_directory | file data* end_file | link | note)* end
enum class FileRecord : std::uint8_t {
  begin = 1,          ///< `mode` is the version of the format: 1.
  directory = 2,      ///< What is in it follows, up to end_directory.
  end_directory = 3,  ///< With mode and time again: they are set now.
  file = 4,           ///< `size`: what it has now; for people.
  data = 5,           ///< The next bytes of the file.
  end_file = 6,       ///< It is complete.
  link = 7,           ///< A symbolic link to what its bytes say.
  note = 8,           ///< A text for people: what was left out.
  failure = 9,        ///< A text for people: why nothing follows. The file before is not complete.
  end = 10,           ///< All is there.
};

struct FileRecordHead {
  FileRecord type = FileRecord::end;
  std::uint16_t name_size = 0;
  std::uint32_t mode = 0;  ///< Permissions, 0 to 0777.
  std::int64_t time_ns = 0;
  std::uint64_t size = 0;  ///< How many bytes follow the name; of a file: how many it has.
};
inline constexpr std::size_t kFileRecordSize = 24;
inline constexpr std::uint32_t kFileFormat = 1;
/// What of a mode is kept: not setuid and setgid.
inline constexpr std::uint32_t kFilePermissions = 0777;
/// Deeper trees are mistakes: a loop of mounts.
inline constexpr std::size_t kDeepestFolder = 200;
/// Bytes of one data record at most, and of a link or a text.
inline constexpr std::size_t kMostFileData = 64 * 1024;

/// Appends a record.
void add_file_record(std::string& out, const FileRecordHead& head, std::string_view name = {},
                     std::string_view bytes = {});

/// Takes records off the front of what has come. Pure.
class FileRecords {
 public:
  struct Record {
    FileRecordHead head;
    std::string_view name;
    std::string_view bytes;
  };
  void add(std::string_view bytes) { bytes_.append(bytes); }
  /// The next whole one, valid until the next call of add(); nothing: there is none yet.
  std::optional<Record> next();
  /// What comes is no such stream.
  bool is_broken() const noexcept { return is_broken_; }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
  bool is_broken_ = false;
};

}  // namespace meshbus
