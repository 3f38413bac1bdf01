-- leaves are the entries that a commit added to the tree, 32 bytes each; marks has two
-- bytes of a checksum for each of its rows.
ALTER TABLE batch ADD COLUMN leaves BLOB;
ALTER TABLE batch ADD COLUMN marks BLOB;

-- The Merkle tree as it was before the row first, which is the first of this file that is
-- in it: its number of entries, and the hashes of its largest whole parts.
CREATE TABLE tree (
  first INTEGER PRIMARY KEY,
  size INTEGER NOT NULL,
  peaks BLOB NOT NULL
);

-- Signed roots of the tree, each after the row last, and the key that verifies it.
CREATE TABLE checkpoint (
  size INTEGER PRIMARY KEY,
  last INTEGER NOT NULL,
  key TEXT NOT NULL,
  note TEXT NOT NULL
);
