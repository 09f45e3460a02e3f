import synqlite = require('synqlite');

export const digest: Promise<synqlite.Digest> = synqlite.digest('a.db');
