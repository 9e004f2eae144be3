#pragma once

#include <string>
#include <vector>

namespace meshbus::test {

/// One file of tests/golden: bytes as a release wrote them, and what they mean.
struct Golden {
  /// "0.1"
  std::string release;
  /// "SpawnProcs"; unique over all releases.
  std::string name;
  /// What is in it, in words: JSON, as the schema reads the bytes.
  std::string meaning;
  std::string bytes;
};

/// All that are committed, by release and name. Throws when a file cannot be understood.
std::vector<Golden> read_golden();

/// Writes a new file and returns its path. Throws when there is one already: what is committed is
/// never written again.
std::string add_golden(const Golden& golden);

/// The folder that this tree of sources is in.
std::string source_dir();

}  // namespace meshbus::test
