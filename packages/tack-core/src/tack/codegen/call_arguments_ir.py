"""What the native call entry makes of one argument, as LLVM IR text: a key of its kind, and words for the block."""

from __future__ import annotations

# The key into *key and three words into words[0..2]; false: not for native code. Numbers of NumPy's types are plain
# numbers (rule PAR-4), read as the runtime's table of types says; those of Tack's types have a key for each type.
CLASSIFY = """
define internal i1 @classify(ptr %obj, ptr %key, ptr %words, ptr %fromdevice) alwaysinline {
  %overflow = alloca i32
  %w1 = getelementptr i64, ptr %words, i64 1
  %w2 = getelementptr i64, ptr %words, i64 2
  %tp = getelementptr i8, ptr %obj, i64 $ob_type
  %type = load ptr, ptr %tp
  %isarray = icmp eq ptr %type, @tack_Array
  br i1 %isarray, label %array, label %t1
t1:
  %isfloat = icmp eq ptr %type, @PyFloat_Type
  br i1 %isfloat, label %real, label %t2
t2:
  %isnd = icmp eq ptr %type, @tack_ndarray
  br i1 %isnd, label %nd, label %t3
t3:
  %islong = icmp eq ptr %type, @PyLong_Type
  %isbool = icmp eq ptr %type, @PyBool_Type
  %isint = or i1 %islong, %isbool
  br i1 %isint, label %long, label %t4
t4:
  %istyped = icmp eq ptr %type, @tack_Scalar
  br i1 %istyped, label %typed, label %numpy0
array:
  %akp = getelementptr i8, ptr %obj, i64 $array_key
  %ak = load i64, ptr %akp
  %adp = getelementptr i8, ptr %obj, i64 $array_data
  %ad = load i64, ptr %adp
  %anp = getelementptr i8, ptr %obj, i64 $array_nbytes
  %an = load i64, ptr %anp
  %asp = getelementptr i8, ptr %obj, i64 $array_dims
  %as = load i64, ptr %asp
  %ready = icmp ne i64 %as, 0
  store i64 %ak, ptr %key
  store i64 %ad, ptr %words
  store i64 %an, ptr %w1
  store i64 %as, ptr %w2
  store i8 1, ptr %fromdevice
  ret i1 %ready
real:
  %dvp = getelementptr i8, ptr %obj, i64 $float_value
  %dv = load double, ptr %dvp
  br label %number
number:
  %d = phi double [ %dv, %real ], [ %nreal, %numpyreal ]
  %size = call double @llvm.fabs.f64(double %d)
  %big = fcmp oge double %size, $F32_LIMIT
  %finite = fcmp olt double %size, 0x7FF0000000000000
  %wide = and i1 %big, %finite
  %fk = select i1 %wide, i64 $KEY_FLOAT_WIDE, i64 $KEY_FLOAT
  %bits = bitcast double %d to i64
  store i64 %fk, ptr %key
  store i64 %bits, ptr %words
  store i64 0, ptr %w1
  store i64 0, ptr %w2
  ret i1 true
long:
  %lv = call i64 @PyLong_AsLongLongAndOverflow(ptr %obj, ptr %overflow)
  %of = load i32, ptr %overflow
  %lfits = icmp eq i32 %of, 0
  br label %whole
whole:
  %v = phi i64 [ %lv, %long ], [ %nv, %numpywhole ]
  %fits = phi i1 [ %lfits, %long ], [ %nfits, %numpywhole ]
  %low = trunc i64 %v to i32
  %back = sext i32 %low to i64
  %small = icmp eq i64 %back, %v
  %ik = select i1 %small, i64 $KEY_INT32, i64 $KEY_INT64
  store i64 %ik, ptr %key
  store i64 %v, ptr %words
  store i64 0, ptr %w1
  store i64 0, ptr %w2
  ret i1 %fits
numpy0:
  %at = phi i64 [ 0, %t4 ], [ %at1, %numpy1 ]
  %rowp = getelementptr i64, ptr @tack_numpy_scalars, i64 %at
  %rowtype = load ptr, ptr %rowp
  %atend = icmp eq ptr %rowtype, null
  br i1 %atend, label %no, label %numpy1
numpy1:
  %at1 = add i64 %at, 2
  %found = icmp eq ptr %rowtype, %type
  br i1 %found, label %numpy2, label %numpy0
numpy2:
  %kindp = getelementptr i64, ptr %rowp, i64 1
  %kind = load i64, ptr %kindp
  %svp = getelementptr i8, ptr %obj, i64 $scalar_value
  %raw = load i64, ptr %svp
  %unused = and i64 %kind, 63
  %realbit = and i64 %kind, $SCALAR_REAL
  %isreal = icmp ne i64 %realbit, 0
  br i1 %isreal, label %numpyreal, label %numpywhole
numpyreal:
  %raw32 = trunc i64 %raw to i32
  %single = bitcast i32 %raw32 to float
  %widened = fpext float %single to double
  %rawd = bitcast i64 %raw to double
  %isdouble = icmp eq i64 %unused, 0
  %nreal = select i1 %isdouble, double %rawd, double %widened
  br label %number
numpywhole:
  %up = shl i64 %raw, %unused
  %extended = ashr i64 %up, %unused
  %padded = lshr i64 %up, %unused
  %signbit = and i64 %kind, $SCALAR_SIGNED
  %issigned = icmp ne i64 %signbit, 0
  %nv = select i1 %issigned, i64 %extended, i64 %padded
  %negative = icmp slt i64 %nv, 0
  %nonnegative = xor i1 %negative, true
  %nfits = or i1 %issigned, %nonnegative
  br label %whole
typed:
  %tdp = getelementptr i8, ptr %obj, i64 $typed_dtype
  %td = load ptr, ptr %tdp
  %tvp = getelementptr i8, ptr %obj, i64 $typed_value
  %tv = load ptr, ptr %tvp
  %ttp = getelementptr i8, ptr %tv, i64 $ob_type
  %tt = load ptr, ptr %ttp
  br label %typed0
typed0:
  %dt = phi i64 [ 0, %typed ], [ %dt1, %typed1 ]
  %drowp = getelementptr i64, ptr @tack_dtypes, i64 %dt
  %drow = load ptr, ptr %drowp
  %dtend = icmp eq ptr %drow, null
  br i1 %dtend, label %no, label %typed1
typed1:
  %dt1 = add i64 %dt, 2
  %dfound = icmp eq ptr %drow, %td
  br i1 %dfound, label %typed2, label %typed0
typed2:
  %dkindp = getelementptr i64, ptr %drowp, i64 1
  %dkind = load i64, ptr %dkindp
  store i64 %dkind, ptr %key
  store i64 0, ptr %w1
  store i64 0, ptr %w2
  %holdsreal = icmp eq ptr %tt, @PyFloat_Type
  br i1 %holdsreal, label %typedreal, label %typed3
typed3:
  %holdslong = icmp eq ptr %tt, @PyLong_Type
  br i1 %holdslong, label %typedlong, label %no
typedreal:
  %trp = getelementptr i8, ptr %tv, i64 $float_value
  %tr = load i64, ptr %trp
  store i64 %tr, ptr %words
  %wantsreal = icmp uge i64 %dkind, $KEY_REALS
  ret i1 %wantsreal
typedlong:
  %tl = call i64 @PyLong_AsLongLongAndOverflow(ptr %tv, ptr %overflow)
  %tof = load i32, ptr %overflow
  %tfits = icmp eq i32 %tof, 0
  store i64 %tl, ptr %words
  %wantslong = icmp ult i64 %dkind, $KEY_REALS
  %tright = and i1 %tfits, %wantslong
  ret i1 %tright
nd:
  %fp = getelementptr i8, ptr %obj, i64 $ndarray_flags
  %flags = load i32, ptr %fp
  %layout = and i32 %flags, 257
  %plain = icmp eq i32 %layout, 257
  br i1 %plain, label %nd1, label %no
nd1:
  %dp = getelementptr i8, ptr %obj, i64 $ndarray_descr
  %descr = load ptr, ptr %dp
  %bp = getelementptr i8, ptr %descr, i64 $descr_byteorder
  %order = load i8, ptr %bp
  %foreign = icmp eq i8 %order, $FOREIGN
  br i1 %foreign, label %no, label %nd2
nd2:
  %np = getelementptr i8, ptr %descr, i64 $descr_type_num
  %num = load i32, ptr %np
  %known = icmp ult i32 %num, 64
  br i1 %known, label %nd3, label %no
nd3:
  %num64 = zext i32 %num to i64
  %cp = getelementptr i8, ptr @tack_codes, i64 %num64
  %packed = load i8, ptr %cp
  %has = icmp ne i8 %packed, 0
  br i1 %has, label %nd4, label %no
nd4:
  %wide64 = zext i8 %packed to i64
  %item = lshr i64 %wide64, 4
  %code = and i64 %wide64, 15
  %rp = getelementptr i8, ptr %obj, i64 $ndarray_ndim
  %rank32 = load i32, ptr %rp
  %rank = zext i32 %rank32 to i64
  %sp = getelementptr i8, ptr %obj, i64 $ndarray_dims
  %dims = load ptr, ptr %sp
  br label %size0
size0:
  %k = phi i64 [ 0, %nd4 ], [ %k1, %size1 ]
  %nbytes = phi i64 [ %item, %nd4 ], [ %nbytes1, %size1 ]
  %more = icmp ult i64 %k, %rank
  br i1 %more, label %size1, label %nd5
size1:
  %ep = getelementptr i64, ptr %dims, i64 %k
  %extent = load i64, ptr %ep
  %nbytes1 = mul i64 %nbytes, %extent
  %k1 = add i64 %k, 1
  br label %size0
nd5:
  %writeable = and i32 %flags, 1024
  %fixed = icmp eq i32 %writeable, 0
  %ro = select i1 %fixed, i64 $READ_ONLY, i64 0
  %rank8 = shl i64 %rank, 8
  %nk0 = or i64 %code, %rank8
  %nk = or i64 %nk0, %ro
  %datap = getelementptr i8, ptr %obj, i64 $ndarray_data
  %data = load i64, ptr %datap
  %dims64 = ptrtoint ptr %dims to i64
  store i64 %nk, ptr %key
  store i64 %data, ptr %words
  store i64 %nbytes, ptr %w1
  store i64 %dims64, ptr %w2
  ret i1 true
no:
  ret i1 false
}
"""
