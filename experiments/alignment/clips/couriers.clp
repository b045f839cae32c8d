; Sends couriers out, round after round: parcels that lie near each other share a courier, old ones go alone.
;
; facts   (parcel NUMBER X Y DUE)     waits
;         (round MINUTE)              begins a round
;         (report)                    asks for the longest trips since the last report
;         (position COURIER X Y)      comes in between, and concerns no rule

(deftemplate parcel (slot number) (slot x) (slot y) (slot due))
(deftemplate position (slot courier) (slot x) (slot y))
(deftemplate trip (slot first) (slot second) (slot length))

; The round comes first: not before it begins are parcels compared, each with every other.
(defrule share-courier
  (declare (salience 20))
  (round ?minute)
  ?one <- (parcel (number ?first) (x ?x) (y ?y))
  ?other <- (parcel (number ?second&:(> ?second ?first))
                    (x ?there) (y ?up&:(< (+ (abs (- ?there ?x)) (abs (- ?up ?y))) 8000)))
  =>
  (retract ?one ?other)
  (assert (trip (first ?first) (second ?second) (length (+ (abs (- ?there ?x)) (abs (- ?up ?y)))))))

(defrule go-alone
  (declare (salience 10))
  (round ?minute)
  ?one <- (parcel (number ?first) (x ?x) (y ?y) (due ?due&:(<= ?due ?minute)))
  =>
  (retract ?one)
  (assert (trip (first ?first) (second none) (length (+ ?x ?y)))))

(defrule end-round
  (declare (salience -10))
  ?now <- (round ?)
  =>
  (retract ?now))

; The longest trips first.
(defrule report-longest
  (report)
  ?trip <- (trip (first ?first) (second ?second) (length ?length))
  (not (trip (length ?more&:(> ?more ?length))))
  =>
  (retract ?trip)
  (printout t ?first " " ?second " " ?length crlf))

(defrule end-report
  (declare (salience -10))
  ?asked <- (report)
  =>
  (retract ?asked))
