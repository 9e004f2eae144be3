#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/files/expected_names.h"
#include "common/files/file_records.h"
#include "meshbus/result.h"

namespace meshbus {

/// Writes a stream of records (file_records.h) as files and folders. A file is there under its name
/// when it is complete, and not before; what is not complete is removed with this object. Never
/// follows a symbolic link below the place where it writes, and makes none that leads outside of
/// it, whatever the stream says.
class TreeWriter {
 public:
  /// Into `place` when that is a folder, else under that name. `expected`: what may come at the
  /// top; without it anything may. Errors: not_exist (the folder above is not there), io_error.
  static Result<TreeWriter> open(const std::string& place,
                                 std::optional<ExpectedNames> expected = std::nullopt);
  TreeWriter(TreeWriter&&) noexcept = default;
  TreeWriter& operator=(TreeWriter&&) = delete;
  ~TreeWriter() { drop_file(); }

  /// The next bytes of the stream. Errors: io_error (what cannot be written; what the other side
  /// could not read), malformed_message, refused (several things for one name; what
  /// was not asked for).
  Result<void> add(std::string_view bytes);
  /// The stream is complete.
  bool is_done() const noexcept { return is_done_; }
  std::uint64_t files() const noexcept { return files_; }
  /// Bytes of contents.
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// What was left out, for people. Not all of it when it is much.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  struct Folder {
    UniqueFd fd;
    std::string path;     ///< For people.
    bool is_new = false;  ///< Made here.
  };
  TreeWriter() = default;

  Result<void> take(const FileRecords::Record& record);
  Result<void> begin_folder(const std::string& name);
  Result<void> end_folder(const FileRecordHead& head);
  Result<void> begin_file(const std::string& name);
  Result<void> write(std::string_view bytes);
  Result<void> end_file(const FileRecordHead& head);
  Result<void> make_link(const std::string& name, const std::string& target);
  /// The name under which it becomes visible. Errors: malformed_message, refused.
  Result<std::string> name_for(std::string_view name);
  /// A device, a socket or a folder is not replaced by a file. Errors: refused.
  Result<void> check_replaceable(const std::string& name) const;
  void note(std::string text);
  void drop_file();
  std::string path_of(const std::string& name) const;

  FileRecords records_;
  std::vector<Folder> folders_;
  std::optional<ExpectedNames> expected_;
  std::string own_name_;  ///< For the only thing at the top; empty: its own.
  bool has_named_ = false;
  bool has_begun_ = false;
  bool is_done_ = false;
  UniqueFd file_;
  std::string file_name_;
  std::string temporary_;
  bool is_unnamed_ = false;  ///< `file_` has no name yet, not even the temporary one.
  std::uint64_t files_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<std::string> notes_;
  std::size_t left_out_ = 0;
};

}  // namespace meshbus
