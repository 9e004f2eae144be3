#include "client/src/mpi/mpi_program.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "client/src/mpi/needed_libraries.h"

namespace meshbus {
namespace {

/// So many bytes of a script are read.
constexpr std::size_t kMostSource = std::size_t{1} << 20;

std::string find_in_path(const std::string& program, const std::string& path) {
  if (program.find('/') != std::string::npos) return program;
  std::string_view rest = path;
  while (!rest.empty()) {
    const auto colon = rest.find(':');
    const std::string candidate = std::string(rest.substr(0, colon)) + "/" + program;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    rest.remove_prefix(colon == std::string_view::npos ? rest.size() : colon + 1);
  }
  return {};
}

std::string read_start(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMostSource, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  return text;
}

bool is_python(std::string_view program) {
  return program.substr(program.rfind('/') + 1).starts_with("python");
}

/// Where in the command line of a Python interpreter its script is, or the text after -c.
struct PythonSource {
  std::size_t index = 0;
  bool is_text = false;
};
std::optional<PythonSource> find_source(const std::vector<std::string>& command) {
  for (std::size_t i = 1; i < command.size(); ++i) {
    const auto& word = command[i];
    if (word == "-c")
      return i + 1 < command.size() ? std::optional(PythonSource{i + 1, true}) : std::nullopt;
    if (word == "-m" || word == "-") return std::nullopt;
    if (word == "-X" || word == "-W") {
      ++i;
    } else if (!word.starts_with('-')) {
      return PythonSource{i, false};
    }
  }
  return std::nullopt;
}

std::optional<MpiProgram> find_mpi4py(const std::string& file, std::string_view source) {
  if (!imports_mpi4py(source)) return std::nullopt;
  return MpiProgram{.wire = MpiWire::any, .file = file, .because = "imports mpi4py"};
}

}  // namespace

std::optional<MpiWire> wire_of_library(std::string_view soname) {
  // MPICH and those that follow its ABI have 12 as the version of all their libraries.
  constexpr std::string_view kAbi = ".so.12";
  constexpr auto kOpenMpi =
      std::to_array<std::string_view>({"libmpi.so", "libmpi_mpifh.so", "libmpi_usempi",
                                       "libmpi_cxx.so", "libmpi_java.so", "libmpi_ignore_tkr"});
  if (soname.starts_with("libmpich") || soname.starts_with("libfmpich")) return MpiWire::pmi1;
  if (soname.starts_with("libmpi_gnu") || soname.starts_with("libmpi_cray") ||
      soname.starts_with("libmpi_intel"))
    return MpiWire::pmi1;
  const bool is_mpi = std::any_of(kOpenMpi.begin(), kOpenMpi.end(), [soname](const auto prefix) {
    return soname.starts_with(prefix);
  });
  const bool is_abi = soname.find(kAbi) != std::string_view::npos;
  if (is_abi && (is_mpi || soname.starts_with("libmpifort.so") ||
                 soname.starts_with("libmpicxx.so") || soname.starts_with("libpmpi.so")))
    return MpiWire::pmi1;
  return is_mpi ? std::optional(MpiWire::pmix) : std::nullopt;
}

bool imports_mpi4py(std::string_view source) {
  while (!source.empty()) {
    const auto end = source.find('\n');
    const auto line = source.substr(0, end);
    if (line.starts_with("from mpi4py import ") && line.find("MPI") != std::string_view::npos)
      return true;
    if (line.starts_with("import mpi4py.MPI") || line.starts_with("from mpi4py.MPI import"))
      return true;
    source.remove_prefix(end == std::string_view::npos ? source.size() : end + 1);
  }
  return false;
}

std::optional<MpiProgram> find_mpi(const std::vector<std::string>& command,
                                   const std::function<std::string(const char*)>& variable) {
  if (command.empty()) return std::nullopt;
  const auto file = find_in_path(command.front(), variable("PATH"));
  if (file.empty()) return std::nullopt;
  if (is_python(file)) {
    const auto source = find_source(command);
    if (!source) return std::nullopt;
    const auto& word = command[source->index];
    return source->is_text ? find_mpi4py(command.front() + " -c", word)
                           : find_mpi4py(word, read_start(word));
  }
  for (const auto& library : all_needed_libraries(file, variable("LD_LIBRARY_PATH"))) {
    if (const auto wire = wire_of_library(library))
      return MpiProgram{.wire = *wire, .file = file, .because = "is linked with " + library};
  }
  const auto text = read_start(file);
  const std::string_view first = std::string_view(text).substr(0, text.find('\n'));
  if (first.starts_with("#!") && first.find("python") != std::string_view::npos)
    return find_mpi4py(file, text);
  return std::nullopt;
}

}  // namespace meshbus
