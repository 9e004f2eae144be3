// Counts the lines of all C and C++ header files below a directory, with the ranks of a mesh:
//
//     meshbus run --mesh --hosts 2 --per-host gpus=4 -- count_lines /usr/include
//
// Every rank finds the same sorted list of files, counts every world_size()-th of them and calls
// rank 0 with its sum; rank 0 waits for all of them and prints the total. `count_lines --alone DIR`
// does it all in one process, for comparison.
//
// Counted are regular files named *.h *.hh *.hpp *.hxx *.ipp *.inl. Links are not followed, so that
// nothing is counted twice; the headers of the C++ library that have no extension are left out.
#include <meshbus/proc.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;
using namespace std::chrono_literals;

struct Sum {
  std::uint64_t files = 0;
  std::uint64_t lines = 0;
};

std::vector<fs::path> find_headers(const fs::path& root) {
  constexpr std::array names = {".h", ".hh", ".hpp", ".hxx", ".ipp", ".inl"};
  std::vector<fs::path> found;
  for (const auto& entry :
       fs::recursive_directory_iterator(root, fs::directory_options::skip_permission_denied)) {
    if (entry.is_symlink() || !entry.is_regular_file()) continue;
    if (std::find(names.begin(), names.end(), entry.path().extension()) != names.end())
      found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

Sum count(const std::vector<fs::path>& files, std::size_t first, std::size_t step) {
  Sum sum;
  std::vector<char> block(256 * 1024);
  for (std::size_t i = first; i < files.size(); i += step) {
    std::ifstream file(files[i], std::ios::binary);
    while (file.read(block.data(), static_cast<std::streamsize>(block.size())), file.gcount() > 0) {
      sum.lines += static_cast<std::uint64_t>(
          std::count(block.begin(), block.begin() + file.gcount(), '\n'));
    }
    ++sum.files;
  }
  return sum;
}

void print_total(const Sum& sum, const std::string& by) {
  std::printf("total: %lu files, %lu lines from %s\n", sum.files, sum.lines, by.c_str());
}

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--alone") {
    print_total(count(find_headers(argv[2]), 0, 1), "1 process");
    return 0;
  }
  if (argc != 2) return std::fprintf(stderr, "usage: count_lines [--alone] DIR\n"), 2;

  // What rank 0 has heard so far. Handlers run on the library's thread, main() on ours.
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint64_t, Sum> sums;

  meshbus::ProcProgram program;
  program.on(
      1, [&](meshbus::Proc& proc, const meshbus::Incoming& call) -> meshbus::Result<std::string> {
        const auto rank = proc.rank_of(call);
        Sum sum;
        if (!rank || !(std::istringstream(std::string(call.body)) >> sum.files >> sum.lines)) {
          return meshbus::fail(meshbus::ErrorCode::refused,
                               "expected FILES LINES from a rank of this mesh");
        }
        const std::lock_guard lock(mutex);
        sums[*rank] = sum;
        changed.notify_one();
        return "thanks";
      });

  program.main([&](meshbus::Proc& proc) {
    const Sum mine = count(find_headers(argv[1]), proc.rank(), proc.world_size());
    std::printf("rank %lu: %lu files, %lu lines\n", proc.rank(), mine.files, mine.lines);
    const auto told =
        proc.call(0, 1, std::to_string(mine.files) + " " + std::to_string(mine.lines), 30s);
    if (!told)
      return std::fprintf(stderr, "rank %lu: %s\n", proc.rank(), told.error().to_string().c_str()),
             1;
    if (proc.rank() != 0) return 0;

    std::unique_lock lock(mutex);
    if (!changed.wait_for(lock, 60s, [&] { return sums.size() == proc.world_size(); })) {
      return std::fprintf(stderr, "only %zu of %lu ranks have answered\n", sums.size(),
                          proc.world_size()),
             1;
    }
    Sum total;
    for (const auto& [rank, sum] : sums) total = {total.files + sum.files, total.lines + sum.lines};
    print_total(total, std::to_string(proc.world_size()) + " ranks");
    return 0;
  });
  meshbus::bootstrap_or_die(program);
}
