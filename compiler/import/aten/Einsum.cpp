// einsum: operands are joined from left to right. A letter that no later
// operand and not the result has is summed as soon as possible; shared letters
// that stay are batching dimensions of one dot_general.
#include "compiler/import/aten/Lowering.h"

using namespace mlir;

namespace lockstep::aten {

namespace {
/// A tensor whose dimensions are named by letters; letters of an ellipsis are
/// '0', '1', ... counted from the right.
struct Term {
  Value value;
  std::string letters;
};
} // namespace

static bool expandEllipsis(std::string &letters, int64_t rank,
                           size_t &ellipsisRank) {
  size_t at = letters.find("...");
  if (at == std::string::npos)
    return true;
  int64_t missing = rank - static_cast<int64_t>(letters.size() - 3);
  if (missing < 0 || missing > 10)
    return false;
  std::string dims;
  for (int64_t i = missing; i-- > 0;)
    dims += static_cast<char>('0' + i);
  ellipsisRank = std::max<size_t>(ellipsisRank, missing);
  letters.replace(at, 3, dims);
  return true;
}

/// A letter that occurs twice in one operand: its diagonal.
static Term takeDiagonals(Emitter &t, Term term) {
  for (size_t i = 0; i < term.letters.size(); ++i)
    for (size_t k = i + 1; k < term.letters.size(); ++k) {
      if (term.letters[i] != term.letters[k])
        continue;
      Shape shape(shapeOf(term.value));
      Value same =
          t.compare(train::CompareDirection::EQ, t.iota(shape, t.i64(), i),
                    t.iota(shape, t.i64(), k));
      term.value =
          t.sum(t.select(same, term.value, 0), {static_cast<int64_t>(k)});
      term.letters.erase(k, 1);
      return takeDiagonals(t, term);
    }
  return term;
}

static Term sumOut(Emitter &t, Term term,
                   llvm::function_ref<bool(char)> isNeeded) {
  Shape dims;
  std::string kept;
  for (auto [i, letter] : llvm::enumerate(term.letters))
    if (isNeeded(letter))
      kept += letter;
    else
      dims.push_back(i);
  if (!dims.empty())
    term = {t.sum(term.value, dims), kept};
  return term;
}

/// The operand in the order of `letters`, with dimensions of size 1 for those
/// that it lacks.
static Value arrange(Emitter &t, const Term &term, StringRef letters) {
  Shape permutation, shape;
  for (char letter : letters)
    if (size_t at = term.letters.find(letter); at != std::string::npos)
      permutation.push_back(at), shape.push_back(shapeOf(term.value)[at]);
    else
      shape.push_back(1);
  return t.reshape(t.transpose(term.value, permutation), shape);
}

static Term contract(Emitter &t, const Term &a, const Term &b,
                     llvm::function_ref<bool(char)> isNeeded) {
  Shape aBatch, bBatch, aSum, bSum;
  std::string batch, aFree, bFree;
  for (auto [i, letter] : llvm::enumerate(a.letters)) {
    size_t other = b.letters.find(letter);
    if (other == std::string::npos) {
      aFree += letter;
      continue;
    }
    // Sizes 1 that broadcast: leave dot_general.
    if (shapeOf(a.value)[i] != shapeOf(b.value)[other]) {
      std::string letters = a.letters;
      for (char extra : b.letters)
        if (letters.find(extra) == std::string::npos)
          letters += extra;
      return sumOut(
          t, {t.mul(arrange(t, a, letters), arrange(t, b, letters)), letters},
          isNeeded);
    }
    (isNeeded(letter) ? aBatch : aSum).push_back(i);
    (isNeeded(letter) ? bBatch : bSum).push_back(other);
    if (isNeeded(letter))
      batch += letter;
  }
  for (char letter : b.letters)
    if (a.letters.find(letter) == std::string::npos)
      bFree += letter;
  return {t.dot(a.value, b.value, aBatch, bBatch, aSum, bSum),
          batch + aFree + bFree};
}

static void lowerEinsum(OpCall &op) {
  std::string equation = op.string("equation", "");
  llvm::erase(equation, ' ');
  SmallVector<Value> operands = op.tensors("tensors");
  op.ignore({"path"});
  auto [inputs, output] = StringRef(equation).split("->");
  SmallVector<StringRef> parts;
  inputs.split(parts, ',');
  if (op.bad() || parts.size() != operands.size())
    return void(op.t.fail("equation '" + equation + "' does not fit " +
                          Twine(operands.size()) + " operands"));
  SmallVector<Term> terms;
  size_t ellipsisRank = 0;
  for (auto [part, operand] : llvm::zip_equal(parts, operands)) {
    Term term{operand, part.str()};
    if (!expandEllipsis(term.letters, rankOf(operand), ellipsisRank) ||
        static_cast<int64_t>(term.letters.size()) != rankOf(operand))
      return void(op.t.fail("equation '" + equation +
                            "' does not fit an operand of rank " +
                            Twine(rankOf(operand))));
    terms.push_back(takeDiagonals(op.t, term));
    if (op.bad())
      return;
  }
  std::string result = output.str();
  if (!StringRef(equation).contains("->")) {
    // Implicit: the ellipsis, then the letters that occur once, in alphabetical
    // order.
    std::string all = inputs.str(), once;
    for (char letter : all)
      if (isalpha(letter) && llvm::count(all, letter) == 1)
        once += letter;
    llvm::sort(once);
    result = (StringRef(all).contains("...") ? "..." : "") + once;
  }
  size_t unused = 0;
  expandEllipsis(result,
                 static_cast<int64_t>(result.size()) - 3 +
                     static_cast<int64_t>(ellipsisRank),
                 unused);
  Term joined = terms.front();
  for (size_t i = 0; i <= terms.size() - 1; ++i) {
    auto isNeeded = [&](char letter) {
      return result.find(letter) != std::string::npos ||
             llvm::any_of(ArrayRef(terms).drop_front(i + 1),
                          [&](const Term &t) {
                            return t.letters.find(letter) != std::string::npos;
                          });
    };
    if (i > 0) {
      // Letters that only the next operand has are summed before the product.
      Term next = sumOut(op.t, terms[i], [&](char letter) {
        return isNeeded(letter) ||
               joined.letters.find(letter) != std::string::npos;
      });
      joined = contract(op.t, joined, next, isNeeded);
    } else {
      joined = sumOut(op.t, joined, isNeeded);
    }
    if (op.bad() || !joined.value)
      return;
  }
  for (char letter : result)
    if (joined.letters.find(letter) == std::string::npos)
      return void(
          op.t.fail("equation '" + equation +
                    "' has a letter in its result that no operand has"));
  op.result(arrange(op.t, joined, result));
}

void addEinsum(OperatorTable &table) { table.add("einsum", lowerEinsum); }

} // namespace lockstep::aten
