// The bytes of a .lockstep file. A fixed header, a section table, then the
// sections, each starting at a multiple of 64 with zeros before it:
//
//   plan             the FlatBuffer of artifact.fbs
//   code.<target>    one self-contained x86-64 ELF shared object per
//   instruction set, e.g. code.x86-64-v3 weights          raw values, each
//   tensor aligned to 64 (absent when weights are external or drawn at start)
//
// Hashes form a tree: leaves of 1 MiB, then sections, then the root, which
// covers header and table. `planHash` covers plan and code (the plan names the
// hash of each weight), so ranks can compare what they will run without reading
// the weights. Readers accept exactly their own formatVersion.
#ifndef LOCKSTEP_RUNTIME_ARTIFACT_FORMAT_H
#define LOCKSTEP_RUNTIME_ARTIFACT_FORMAT_H

#include "runtime/artifact/hash.h"

namespace lockstep::runtime {

inline constexpr char artifactMagic[9] = "LOCKSTEP";
inline constexpr uint32_t formatVersion = 1;
inline constexpr uint64_t sectionAlignment = 64;
/// Tensors in the weights section start at multiples of this.
inline constexpr uint64_t weightAlignment = 64;

struct ArtifactHeader {
  char magic[8];
  uint32_t version;
  uint32_t sections;
  uint64_t fileBytes;
  char compilerVersion[40]; ///< text, zero padded
  Hash root;     ///< SHA-256 of header and section table with this field zero
  Hash planHash; ///< SHA-256 of the hashes of plan and code sections
};
static_assert(sizeof(ArtifactHeader) == 128,
              "the header is part of the file format");

struct SectionEntry {
  char name[40]; ///< zero padded
  uint64_t offset;
  uint64_t bytes;
  Hash hash; ///< treeHash of the section
  uint64_t reserved;
};
static_assert(sizeof(SectionEntry) == 96,
              "the section table is part of the file format");

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_ARTIFACT_FORMAT_H
