import sqlite3,sys
c=sqlite3.connect(sys.argv[1]); c.execute('pragma foreign_keys=on'); c.executescript(sys.argv[2]); c.commit()
