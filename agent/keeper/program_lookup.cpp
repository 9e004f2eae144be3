#include "agent/keeper/program_lookup.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::keeper {

namespace {

// 0: a file that may be executed; else the errno that execve would give.
int check_executable(int directory, const char* path) {
  struct stat status{};
  if (::fstatat(directory, path, &status, 0) != 0) return errno;
  if (!S_ISREG(status.st_mode)) return EACCES;
  return ::faccessat(directory, path, X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

// Errors after which execvp goes on to the next directory.
bool is_absence(int error) {
  return error == ENOENT || error == ENOTDIR || error == ESTALE || error == ENODEV ||
         error == ETIMEDOUT;
}

UniqueFd open_directory(const std::string& cwd) {
  return UniqueFd(cwd.empty() ? -1 : ::open(cwd.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

std::optional<std::string> script_interpreter(std::string_view head) {
  std::string_view line = head.substr(
      2, head.find('\n') == std::string_view::npos ? std::string_view::npos : head.find('\n') - 2);
  const auto first = line.find_first_not_of(" \t");
  if (first == std::string_view::npos) return std::nullopt;
  line.remove_prefix(first);
  return std::string(line.substr(0, line.find_first_of(" \t\r")));
}

std::optional<std::string> elf_interpreter(int file, std::string_view head) {
  Elf64_Ehdr header;
  if (head.size() < sizeof header || head[EI_CLASS] != ELFCLASS64) return std::nullopt;
  std::memcpy(&header, head.data(), sizeof header);
  for (int i = 0; i < header.e_phnum && i < 64; ++i) {
    Elf64_Phdr segment;
    const auto offset =
        static_cast<off_t>(header.e_phoff + static_cast<std::uint64_t>(i) * sizeof segment);
    if (::pread(file, &segment, sizeof segment, offset) != static_cast<ssize_t>(sizeof segment))
      return std::nullopt;
    if (segment.p_type != PT_INTERP) continue;
    std::array<char, PATH_MAX> name{};
    const std::size_t wanted =
        segment.p_filesz < name.size() - 1 ? segment.p_filesz : name.size() - 1;
    if (::pread(file, name.data(), wanted, static_cast<off_t>(segment.p_offset)) <= 0)
      return std::nullopt;
    return std::string(name.data());
  }
  return std::nullopt;
}

}  // namespace

tl::expected<std::string, os::SpawnFailure> find_program(const std::string& program,
                                                         std::optional<std::string_view> path,
                                                         const std::string& cwd) {
  if (program.find('/') != std::string::npos) return program;
  if (program.empty())
    return tl::unexpected(os::SpawnFailure{os::SpawnStage::lookup, ENOENT, program});
  if (auto own = find_beside_us(program)) return std::move(*own);
  const UniqueFd directory = open_directory(cwd);
  const int base = directory ? directory.get() : AT_FDCWD;
  std::string_view rest = path.value_or("/bin:/usr/bin");
  bool denied = false;
  for (bool last = false; !last;) {
    const auto colon = rest.find(':');
    last = colon == std::string_view::npos;
    const std::string_view entry = rest.substr(0, colon);
    if (!last) rest.remove_prefix(colon + 1);
    // An empty entry is the working directory.
    const std::string candidate =
        entry.empty() ? "./" + program : std::string(entry) + "/" + program;
    const int error = check_executable(base, candidate.c_str());
    if (error == 0) return candidate;
    if (error == EACCES) {
      denied = true;
    } else if (!is_absence(error)) {
      return tl::unexpected(os::SpawnFailure{os::SpawnStage::lookup, error, candidate});
    }
  }
  return tl::unexpected(
      os::SpawnFailure{os::SpawnStage::lookup, denied ? EACCES : ENOENT, program});
}

std::optional<std::string> find_beside_us(const std::string& program) {
  if (!program.starts_with("meshbus-mpi") && program != "meshbus-torch-exec" &&
      program != "meshbus")
    return std::nullopt;
  std::array<char, PATH_MAX> own{};
  const ssize_t size = ::readlink("/proc/self/exe", own.data(), own.size());
  if (size <= 0) return std::nullopt;
  const std::string_view path(own.data(), static_cast<std::size_t>(size));
  auto beside = std::string(path.substr(0, path.rfind('/') + 1)) + program;
  if (check_executable(AT_FDCWD, beside.c_str()) != 0) return std::nullopt;
  return beside;
}

std::optional<std::string> find_bad_interpreter(const std::string& file, const std::string& cwd,
                                                int error) {
  if (error != ENOENT && error != EACCES && error != ENOEXEC && error != ELIBBAD)
    return std::nullopt;
  const UniqueFd directory = open_directory(cwd);
  const int base = directory ? directory.get() : AT_FDCWD;
  if (check_executable(base, file.c_str()) != 0) return std::nullopt;
  const UniqueFd opened(::openat(base, file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, 256> buffer{};
  const ssize_t got = opened ? ::read(opened.get(), buffer.data(), buffer.size()) : -1;
  if (got < 4) return std::nullopt;
  const std::string_view head(buffer.data(), static_cast<std::size_t>(got));
  std::optional<std::string> interpreter;
  if (head.substr(0, 2) == "#!") {
    interpreter = script_interpreter(head);
  } else if (head.substr(0, SELFMAG) == std::string_view(ELFMAG, SELFMAG)) {
    interpreter = elf_interpreter(opened.get(), head);
  }
  if (!interpreter || check_executable(base, interpreter->c_str()) == 0) return std::nullopt;
  return interpreter;
}

}  // namespace meshbus::keeper
